"""Sites of the panel after months of use."""

from __future__ import annotations

from typing import Any

from panel.accounts.models import User
from panel.hosts.models import WebServer
from panel.websites import services
from panel.websites.models import Site

LONG_SITE = "intranet-documentation-and-knowledge-base-of-the-whole-company"


def _locations() -> list[dict[str, Any]]:
    return [
        {"match": "=", "pattern": "/health", "handler": "return", "return_code": 200, "return_value": "ok"},
        {"pattern": "/api/", "handler": "proxy", "upstream": "app", "gzip": "on", "rate_limit_rps": 20},
        {"match": "~", "pattern": r"^/downloads/(?<version>[0-9.]+)/.*\.(zip|tar\.gz)$", "expires": "30d"},
        {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": "php"},
    ]


def build(owner: User, servers: list[WebServer]) -> list[Site]:
    """A shop of many parts, a site with a long name and many domains, and a draft without a server."""
    team = owner.teams.get()
    services.certificate_self_sign(
        actor=owner, team=team, name="shop-example", names=["shop.example", "*.shop.example"], days=20
    )
    backends = [{"address": "127.0.0.1:3000"}, {"address": "backend-2.internal.example:3000", "backup": True}]
    block = {
        "listens": [{"port": 80, "default_server": True}, {"port": 443, "tls": True, "http2": True}],
        "names": ["shop.example", "www.shop.example"],
        "certificate": "shop-example",
        "redirect_to_https": True,
        "hsts_max_age_s": 31_536_000,
        "root": "/srv/www/shop",
        "index": ["index.html"],
        "locations": _locations(),
    }
    shop = {
        "name": "shop",
        "team": team.slug,
        "web_server": servers[0].pk,
        "tags": ["customer:example", "shop"],
        "notes": "Ask Petra before changing the API.\nOn call: 0800 1234.",
        "upstreams": [{"name": "app", "servers": backends}],
        "php_pools": [
            {"name": "php", "address": "unix:/run/php/php8.2-fpm.sock", "settings": {"memory_limit": "256M"}}
        ],
        "blocks": [block],
    }
    names = [f"{word}.knowledge-base.intranet.company.example" for word in ("docs", "wiki", "search", "api", "status")]
    long = {"listens": [{"port": 8080}], "names": names, "root": "/srv/www/intranet"}
    definitions = (
        shop,
        {"name": LONG_SITE, "team": team.slug, "web_server": servers[1].pk, "blocks": [long]},
        {"name": "draft", "team": team.slug, "blocks": []},
    )
    return [services.site_define(actor=owner, data=data) for data in definitions]
