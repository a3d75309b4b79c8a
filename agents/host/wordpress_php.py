"""Configuration and content of a test bed's WordPress: PHP files in the test bed."""

from __future__ import annotations

# wp-config.php in the parent of the document root, the second place where wp-load.php looks. The test bed has no host
# name: WordPress uses the requested address, one of the test bed's listeners.
CONFIG = """<?php
/*DEFINED*/define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('WP_HOME', 'http://' . $_SERVER['HTTP_HOST']);
define('WP_SITEURL', WP_HOME);
define('DISABLE_WP_CRON', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('DISALLOW_FILE_MODS', true);
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/www/');
}
require_once ABSPATH . 'wp-settings.php';
"""

# A must-use plugin. Compared servers must send the same page, so pages contain no port.
PLUGIN = """<?php
add_filter('pre_http_request', function () {
    return new WP_Error('testbed', 'A test bed asks no other machine.');
});
// Hints name the address too, unless it is SERVER_NAME, which servers do not agree about.
remove_action('wp_head', 'wp_resource_hints', 2);
add_action('template_redirect', function () {
    ob_start(function ($page) {
        $here = 'http://' . $_SERVER['HTTP_HOST'];
        return strtr($page, [
            $here . '"' => '/"',
            $here . "'" => "/'",
            $here => '',
            str_replace('/', '\\\\/', $here) => '',
            urlencode($here) => '',
        ]);
    });
}, 0);
"""

# Does the work of wp-admin/install.php, and creates two pages and 14 posts in two categories with three comments each,
# always the same. The suite's list of pages depends on their ids (panel/benchmarks/suites/wordpress.py).
INSTALL = """<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = 'testbed.test';
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['REQUEST_URI'] = '/wp-admin/install.php';
function wp_mail() {
    return true;
}
function wp_new_blog_notification() {
}
require __DIR__ . '/www/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
// Nobody is told the password, and nobody needs it.
wp_install('Testbed', 'testbed', 'testbed@testbed.test', false, '', bin2hex(random_bytes(24)));
update_option('show_avatars', 0);
update_option('permalink_structure', '');
wp_delete_post(1, true);

$words = explode(' ', 'river harbour morning ladder copper window garden signal paper winter market bridge candle '
    . 'engine forest letter mirror orange pocket quarter ribbon silver ticket valley');
$state = 7;
function text($count) {
    global $words, $state;
    $found = [];
    while ($count--) {
        $state = ($state * 75 + 74) % 65537;
        $found[] = $words[$state % count($words)];
    }
    return ucfirst(implode(' ', $found)) . '.';
}
function made($values) {
    $given = $values['import_id'];
    $number = wp_insert_post(['post_status' => 'publish', 'post_author' => 1, 'post_title' => text(4)] + $values, true);
    if ($number !== $given) {
        exit("page $given was not written: " . (is_wp_error($number) ? $number->get_error_message() : $number));
    }
}
function paragraphs($count) {
    $found = [];
    while ($count--) {
        $found[] = '<!-- wp:paragraph --><p>' . text(60) . '</p><!-- /wp:paragraph -->';
    }
    return $found;
}

$categories = [wp_insert_term('Town', 'category')['term_id'], wp_insert_term('Country', 'category')['term_id']];
if ($categories !== [2, 3]) {
    exit('the categories have other numbers: ' . implode(', ', $categories));
}
for ($n = 0; $n < 14; $n++) {
    $image = '<!-- wp:image --><figure class="wp-block-image"><img src="/image' . $n % 5 . '.png" alt=""/></figure>'
        . '<!-- /wp:image -->';
    $date = sprintf('2026-01-%02d 09:00:00', $n + 1);
    made(['import_id' => 101 + $n, 'post_date' => $date, 'post_category' => [$categories[$n % 2]],
        'post_content' => implode("\\n", array_merge(paragraphs(2), [$image], paragraphs(4)))]);
    for ($m = 0; $m < 3; $m++) {
        wp_insert_comment(['comment_post_ID' => 101 + $n, 'comment_author' => $words[$n + $m],
            'comment_content' => text(30), 'comment_date' => $date, 'comment_approved' => 1]);
    }
}
for ($n = 0; $n < 2; $n++) {
    made(['import_id' => 201 + $n, 'post_type' => 'page', 'post_date' => '2026-01-01 09:00:00',
        'post_content' => implode("\\n", paragraphs(3))]);
}
echo 'installed';
"""
