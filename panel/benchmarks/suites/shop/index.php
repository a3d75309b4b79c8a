<?php
// A small shop: 21 pages (?p=0 is the front page) that work a little, each with a style sheet, a script and five images.
$page = isset($_GET['p']) ? max(0, min(20, (int) $_GET['p'])) : 0;
mt_srand(1000 + $page); // the same page every time: servers are compared by what they answer
$goods = [];
for ($i = 0; $i < 400; $i++) {
    $goods[] = ['name' => 'Article ' . mt_rand(100, 999), 'price' => mt_rand(100, 99999) / 100, 'key' => md5($page . '-' . $i)];
}
usort($goods, fn ($a, $b) => [$a['price'], $a['key']] <=> [$b['price'], $b['key']]);
header('Content-Type: text/html; charset=utf-8');
?><!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Shop, page <?= $page ?></title>
<link rel="stylesheet" href="/shop.css"><script src="/shop.js"></script></head>
<body><h1>Shop, page <?= $page ?></h1><p><?php for ($i = 0; $i < 5; $i++): ?><img src="/image<?= $i ?>.png" alt="Image <?= $i ?>"><?php endfor ?></p>
<ul><?php foreach (array_slice($goods, 0, 60) as $good): ?><li><?= htmlspecialchars($good['name']) ?>: <?= number_format($good['price'], 2) ?> (<?= $good['key'] ?>)</li><?php endforeach ?></ul>
</body></html>
