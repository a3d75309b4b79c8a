"""Rendering 10,000 sites for each engine: microseconds per site, beside what reading the text back with crossplane's
lexer costs (what a panel that edits files in place pays for every change) and hashing it (the least any store pays)."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

SITES = 10_000
ROUNDS = int(os.environ.get("PADDOCK_PERF_ROUNDS", "3"))


def _specs() -> list:  # type: ignore[type-arg]
    """A site as most are: redirect to https, TLS, WordPress-like locations; each with names of its own."""
    from panel.rendering.spec import Header, Listen, Location, PhpPool, ServerBlock, SiteSpec, TlsFiles

    locations = (
        Location("", "/", "static", try_files=("$uri", "$uri/", "/index.php?$args")),
        Location("~", r"\.php$", "php", php_pool="main"),
        Location("~*", r"\.(css|js|png|jpg|svg|woff2)$", "static", expires="30d"),
        Location("^~", "/.well-known/", "static"),
        Location("=", "/favicon.ico", "static", headers=(Header("Cache-Control", "public"),)),
    )
    block = ServerBlock(
        listens=(Listen(80), Listen(443, tls=True, http2=True), Listen(443, "::", tls=True, http2=True)),
        root="/srv/www/site",
        index=("index.html", "index.php"),
        tls=TlsFiles("site", "/etc/ssl/site.pem", "/etc/ssl/site.key"),
        redirect_to_https=True,
        locations=locations,
    )
    base = SiteSpec("site", (block,), php_pools=(PhpPool("main", "unix:/run/php/site.sock"),))
    return [
        dataclasses.replace(
            base,
            name=f"site-{n:05}",
            blocks=(dataclasses.replace(block, names=(f"site-{n:05}.example", f"www.site-{n:05}.example")),),
        )
        for n in range(SITES)
    ]


def _per_site(work: Callable[[], object]) -> float:
    """Microseconds of CPU per site, median of the rounds."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append((time.process_time() - began) / SITES * 1e6)
    return statistics.median(times)


def _read_back(texts: Sequence[str]) -> None:
    from crossplane.lexer import _lex_file_object

    for text in texts[: SITES // 10]:
        for _token in _lex_file_object(io.StringIO(text)):
            pass


def main(folder: Path) -> None:
    from panel.rendering import ENGINES, render
    from panel.rendering.spec import WebServerSpec

    specs = _specs()
    print(f"{'engine':<16}{'us per site':>12}{'sites/s':>10}{'KB':>7}   ratio to reading it back, to hashing it")
    for engine in ENGINES:
        layout = "vhosts" if engine == "openlitespeed" else "sites"
        version = {"nginx": "1.22.1", "native": "0.1.0", "apache": "2.4.71", "openlitespeed": "1.9.1"}[engine]
        web_server = WebServerSpec(engine, layout, "/etc/server", "/var/log/server", version)  # type: ignore[arg-type]
        texts = ["".join(file.text for file in render(spec, web_server)) for spec in specs]
        cost = _per_site(lambda web_server=web_server: [render(spec, web_server) for spec in specs])  # type: ignore[misc]
        hashing = _per_site(lambda texts=texts: [hashlib.sha256(text.encode()).digest() for text in texts])  # type: ignore[misc]
        reading = _per_site(lambda texts=texts: _read_back(texts)) * 10  # type: ignore[misc]
        size = sum(map(len, texts)) / len(texts) / 1024
        print(f"{engine:<16}{cost:>12.0f}{1e6 / cost:>10.0f}{size:>7.1f}   {cost / reading:.2f}, {cost / hashing:.0f}")
