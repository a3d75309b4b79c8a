"""Suite `php-application-2020`: siege on a PHP application, with CPU and memory of the web server and of PHP
recorded.
"""

from __future__ import annotations

from pathlib import Path

from panel.benchmarks.choices import Tool
from panel.benchmarks.suites import published, wordpress
from panel.benchmarks.suites.definitions import Application, Case, Content, Settings, Setup, Suite
from panel.benchmarks.tools.arguments import Value

SLUG = "php-application-2020"
PAGES = tuple(f"/index.php?p={number}" for number in range(21))
IMAGES = tuple(f"/image{number}.png" for number in range(5))
_IMAGE_SIZES = (12_000, 25_000, 48_000, 90_000, 160_000)
_SHOP = (Path(__file__).parent / "shop" / "index.php").read_text(encoding="utf-8")
_CHILDREN = 5
_LSPHP_CHILDREN = 25
_PHPINFO = ("phpinfo.php", "<?php phpinfo();\n")
_FILLED = tuple((path[1:], size) for path, size in zip(IMAGES, _IMAGE_SIZES, strict=True))
_FIRST_LOOK = ("phpinfo", "static-files", "app-browsing", "app-php-only")


def _case(
    slug: str, title: str, concurrency: int, paths: tuple[str, ...], *, short: bool, parser: bool = False
) -> Case:
    arguments: dict[str, Value] = {
        "concurrency": concurrency,
        "duration_s": 1 if short else 60,
        "keepalive": False,
        "dynamic": slug == "phpinfo",
    }
    return Case(
        slug=slug,
        title=title,
        tool=Tool.SIEGE,
        arguments=arguments,
        paths=paths,
        figure="transactions",
        rounds=3,
        warmup_s=0 if short else 20,
        timeout_s=120,
        idle_s=0.05 if short else 10.0,
        source=slug,
        parser=parser,
        browses=slug.startswith("app-"),
    )


def _cases(*, short: bool) -> tuple[Case, ...]:
    cases = (
        _case("phpinfo", "phpinfo(), 5 users", 5, ("/phpinfo.php",), short=short),
        _case("static-files", "Five images, 15 users", 15, IMAGES, short=short),
        _case("app-warmup", "Browsing, one user", 1, PAGES, short=short, parser=True),
        _case("app-browsing", "Browsing, 15 users", 15, PAGES, short=short, parser=True),
        _case("app-php-only", "Pages only, 15 users", 15, PAGES, short=short),
        _case("app-php-only-c5", "Pages only, 5 users", 5, PAGES, short=short),
    )
    return tuple(case for case in cases if not short or case.slug in _FIRST_LOOK)


_SHOP_CONTENT = Content(
    texts=(
        ("index.php", _SHOP),
        _PHPINFO,
        ("shop.css", "body { font-family: sans-serif; }\n" * 200),
        ("shop.js", "// nothing happens here\n" * 300),
    ),
    sizes=_FILLED,
)

SUITE = Suite(
    slug=SLUG,
    title="PHP application",
    about=(
        "siege on phpinfo(), on images, and on an application, with and without linked files. Records "
        "CPU and memory of the web server and of PHP over time."
    ),
    source=published.suite(SLUG)["source"],
    setups=(
        Setup("nginx-fpm", "nginx + php-fpm", "nginx", "nginx", php_children=_CHILDREN),
        Setup("apache-fpm", "Apache + php-fpm", "apache", "apache", php_children=_CHILDREN),
        Setup("gallop-fpm", "gallop + php-fpm", "native", php_children=_CHILDREN),
        Setup("openlitespeed-fpm", "OpenLiteSpeed + php-fpm", "openlitespeed", php_children=_CHILDREN),
        Setup(
            "openlitespeed-tcp",
            "OpenLiteSpeed + lsphp over TCP",
            "openlitespeed",
            "openlitespeed-tcp",
            php_children=_LSPHP_CHILDREN,
            php="lsphp-tcp",
        ),
        Setup(
            "openlitespeed-socket",
            "OpenLiteSpeed + lsphp (managed)",
            "openlitespeed",
            "openlitespeed-socket",
            php_children=_LSPHP_CHILDREN,
            php="lsphp-started",
        ),
    ),
    settings=Settings(),
    content=_SHOP_CONTENT,
    table="measures",
    applications=(
        Application(
            slug="shop",
            label="Bundled shop",
            about="21 pages of a small shop without a database, included with Paddock.",
            content=_SHOP_CONTENT,
            paths=PAGES,
        ),
        Application(
            slug="wordpress",
            label="WordPress",
            about="A private copy of the distribution's WordPress with its own MariaDB and 21 pages.",
            content=Content(texts=(_PHPINFO,), sizes=_FILLED),
            paths=wordpress.PAGES,
            ready_made="wordpress",
            short_warmup_s=3,
            short_duration_s=12,
        ),
    ),
    not_measured=(
        "The shop of the publication. Instead, Paddock measures WordPress, or 21 pages of a small application with the "
        "same number of files as the shop.",
    ),
    full=_cases(short=False),
    short=_cases(short=True),
)
