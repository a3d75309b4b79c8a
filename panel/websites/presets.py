"""Presets of new sites: server blocks, locations and upstreams for well-known applications and kinds of content.

Each preset has the protection that its application needs: scripts run only where the application has them, and requests
for hidden files, uploaded scripts and configuration files are denied. Values are those of a site's definition
(definitions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from panel.websites.definitions import BlockData, HeaderData, LocationData, PhpPoolData, UpstreamData

Words = str | Promise
POOL, APP = "php", "app"
# ACME challenges and other well-known addresses (RFC 8615) stay reachable.
_HIDDEN: LocationData = {"match": "~", "pattern": r"/\.(?!well-known(?:/|$))", "handler": "deny"}
_NO_GUESSING: HeaderData = {"name": "X-Content-Type-Options", "value": "nosniff", "always": True}
_REFERRER: HeaderData = {"name": "Referrer-Policy", "value": "strict-origin-when-cross-origin", "always": True}
_HEADERS = [_NO_GUESSING, _REFERRER]
_ASSETS = r"\.(?:css|js|mjs|map|png|jpe?g|gif|svg|webp|avif|ico|woff2?|ttf|otf)$"
_SCRIPTS = r"\.ph(?:p[0-9]?|tml|ar)(?:/|$)"


@dataclass(frozen=True)
class Answers:
    """Values that the user enters for a preset: folder, address of the PHP pool or application, redirect target."""

    root: str = ""
    php_address: str = ""
    upstream: str = ""
    redirect_to: str = ""


@dataclass(frozen=True)
class Parts:
    """Parts of a site's definition that a preset creates: fields of the server block, upstreams, and PHP pools."""

    block: BlockData
    upstreams: list[UpstreamData] = field(default_factory=list)
    php_pools: list[PhpPoolData] = field(default_factory=list)


@dataclass(frozen=True)
class Preset:
    """A preset for one kind of content. `needs` are the fields of Answers that the preset uses."""

    label: Words
    detail: Words
    needs: tuple[str, ...]
    parts: Callable[[Answers], Parts]


def _assets(prefix: str, expires: str) -> LocationData:
    """Return a location for static files below `prefix`, with 404 for missing files and the browser cache time
    `expires`.

    Regular expressions take precedence over this prefix. So the regular expression that denies hidden files works here,
    too.
    """
    location: LocationData = {"pattern": prefix, "handler": "static", "expires": expires}
    location["try_files"] = ["$uri", "=404"]
    return location


def _static(answers: Answers) -> Parts:
    return Parts({"root": answers.root, "index": ["index.html"], "headers": _HEADERS, "locations": [_HIDDEN]})


def _single_page(answers: Answers) -> Parts:
    start: LocationData = {
        "match": "=",
        "pattern": "/index.html",
        "handler": "static",
        "headers": [{"name": "Cache-Control", "value": "no-cache", "always": True}],
    }
    block: BlockData = {
        "root": answers.root,
        "index": ["index.html"],
        "try_files": ["$uri", "$uri/", "/index.html"],
        "headers": _HEADERS,
        "locations": [start, _assets("/assets/", "365d"), _assets("/static/", "365d"), _HIDDEN],
    }
    return Parts(block)


def _php_block(answers: Answers, locations: list[LocationData], fallback: str) -> Parts:
    block: BlockData = {
        "root": answers.root,
        "index": ["index.php", "index.html"],
        "try_files": ["$uri", "$uri/", fallback],
        "headers": _HEADERS,
        "locations": locations,
    }
    return Parts(block, php_pools=[{"name": POOL, "address": answers.php_address}])


def _php(answers: Answers) -> Parts:
    scripts: LocationData = {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": POOL}
    return _php_block(answers, [_HIDDEN, scripts], "/index.php?$args")


def _wordpress(answers: Answers) -> Parts:
    """Return the parts of a WordPress site, with protection against attacks as in the guide of WordPress.

    https://developer.wordpress.org/advanced-administration/security/hardening/
    """
    no_scripts = rf"^/wp-content/(?:uploads|files|cache|upgrade|languages)/.*{_SCRIPTS}"
    known = r"^/(?:readme\.html|license\.txt|wp-config(?:-sample)?\.php|xmlrpc\.php)$"
    login: LocationData = {
        "match": "=",
        "pattern": "/wp-login.php",
        "handler": "php",
        "php_pool": POOL,
        "rate_limit_rps": 1,
        "rate_limit_burst": 10,
    }
    locations: list[LocationData] = [
        login,
        _HIDDEN,
        {"match": "~*", "pattern": known, "handler": "deny"},
        {"match": "~*", "pattern": no_scripts, "handler": "deny"},
        {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": POOL},
        {
            "match": "~*",
            "pattern": _ASSETS,
            "handler": "static",
            "expires": "30d",
            "try_files": ["$uri", "/index.php?$args"],
        },
    ]
    parts = _php_block(answers, locations, "/index.php?$args")
    return Parts(parts.block | {"client_max_body_mb": 64}, php_pools=parts.php_pools)


def _front_controller(answers: Answers, *folders: str) -> Parts:
    """Return the parts of a site for a framework whose only script is public/index.php, with built assets
    in `folders`.
    """
    locations: list[LocationData] = [
        {"match": "=", "pattern": "/index.php", "handler": "php", "php_pool": POOL},
        *(_assets(folder, "365d") for folder in folders),
        _HIDDEN,
        {"match": "~", "pattern": r"\.php(?:/|$)", "handler": "return", "return_code": 404},
    ]
    return _php_block(answers, locations, "/index.php?$args")


def _proxy(answers: Answers) -> Parts:
    app: LocationData = {"pattern": "/", "handler": "proxy", "upstream": APP, "websocket": True}
    return Parts({"locations": [app]}, upstreams=[{"name": APP, "servers": [{"address": answers.upstream}]}])


def _with_files(answers: Answers, *locations: LocationData) -> Parts:
    """Return the parts of a proxied application whose web server sends some files itself: those of `locations`."""
    parts = _proxy(answers)
    own = [*parts.block["locations"], *locations, _HIDDEN]
    return Parts({"root": answers.root, "headers": [_NO_GUESSING], "locations": own}, upstreams=parts.upstreams)


def _django(answers: Answers) -> Parts:
    return _with_files(answers, _assets("/static/", "30d"), _assets("/media/", "1h"))


def _rails(answers: Answers) -> Parts:
    """Return the parts of a Rails application. The web server sends compiled assets and the pages of public/, as Rails
    does in production.
    """
    pages: list[LocationData] = [
        {"match": "=", "pattern": path, "handler": "static"} for path in ("/robots.txt", "/favicon.ico")
    ]
    return _with_files(answers, _assets("/assets/", "365d"), _assets("/packs/", "365d"), *pages)


def _redirect(answers: Answers) -> Parts:
    target = answers.redirect_to
    value = target if target.endswith("/") else f"{target}$request_uri"
    location: LocationData = {"pattern": "/", "handler": "return", "return_code": 301, "return_value": value}
    return Parts({"locations": [location]})


PRESETS: Mapping[str, Preset] = {
    "static": Preset(_("Files"), _("A folder of web pages, images, and scripts"), ("root",), _static),
    "spa": Preset(
        _("Single-page application"), _("A built React, Vue, or Angular application"), ("root",), _single_page
    ),
    "wordpress": Preset(_("WordPress"), _("Without scripts in uploads"), ("root", "php_address"), _wordpress),
    "laravel": Preset(
        _("Laravel"),
        _("The folder is the project's public folder"),
        ("root", "php_address"),
        lambda answers: _front_controller(answers, "/build/"),
    ),
    "symfony": Preset(
        _("Symfony"),
        _("The folder is the project's public folder"),
        ("root", "php_address"),
        lambda answers: _front_controller(answers, "/build/", "/bundles/"),
    ),
    "php": Preset(_("PHP"), _("Another PHP application"), ("root", "php_address"), _php),
    "django": Preset(
        _("Django"),
        _("The folder that contains static and media, and an ASGI or WSGI server"),
        ("root", "upstream"),
        _django,
    ),
    "rails": Preset(_("Ruby on Rails"), _("The public folder, and Puma"), ("root", "upstream"), _rails),
    "node": Preset(_("Node.js"), _("An application that may use WebSocket"), ("upstream",), _proxy),
    "proxy": Preset(_("Proxy"), _("An application that listens on a port or socket"), ("upstream",), _proxy),
    "redirect": Preset(_("Redirect"), _("Redirects all requests to another address"), ("redirect_to",), _redirect),
}
