"""Fixtures of sites: the people, a sample site named shop, and clients that are signed in."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from panel.websites import services
from panel.websites.models import Site
from tests.api.caller import Caller, caller_of
from tests.support.cast import Cast, cast, signed_in


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def api(people: Cast) -> Caller:
    """Calls of the API by the owner."""
    return caller_of(people.owner)


def shop_definition(people: Cast, **changes: Any) -> dict[str, Any]:
    """A site with three locations, as `site_define` takes it."""
    block = {
        "listens": [{"port": 80}],
        "names": ["shop.example", "www.shop.example"],
        "root": "/srv/www/shop",
        "index": ["index.html"],
        "locations": [
            {"match": "=", "pattern": "/health", "handler": "return", "return_code": 200, "return_value": "ok"},
            {"pattern": "/api/", "handler": "proxy", "upstream": "app"},
            {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": "php"},
        ],
    }
    base = {
        "name": "shop",
        "team": people.team.slug,
        "web_server": people.nginx.pk,
        "upstreams": [{"name": "app", "servers": [{"address": "127.0.0.1:3000"}]}],
        "php_pools": [{"name": "php", "address": "unix:/run/php/php8.2-fpm.sock"}],
        "blocks": [block],
    }
    return base | changes


@pytest.fixture
def shop(people: Cast) -> Site:
    return services.site_define(actor=people.owner, data=shop_definition(people))


@pytest.fixture
def owner(people: Cast) -> Client:
    return signed_in(people.owner)


@pytest.fixture
def viewer(people: Cast) -> Client:
    return signed_in(people.viewer)


@pytest.fixture
def outsider(people: Cast) -> Client:
    return signed_in(people.outsider)


@pytest.fixture
def admin(people: Cast) -> Client:
    return signed_in(people.admin)
