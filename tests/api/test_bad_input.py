"""Values of every wrong type in a site definition: reported at their field, nothing created, never a 500."""

from __future__ import annotations

from typing import Any

import pytest

from panel.websites.models import Site
from tests.api.caller import SITE, Caller, pointers

PLACES = {
    "": [
        "name",
        "team",
        "web_server",
        "enabled",
        "health_path",
        "notes",
        "blocks",
        "upstreams",
        "php_pools",
        "stream_servers",
    ],
    "blocks/0": [
        *("listens", "names", "certificate", "locations", "root", "index", "try_files", "autoindex"),
        *("error_pages", "headers", "access_log", "error_log_level", "gzip", "gzip_types", "client_max_body_mb"),
    ],
    "blocks/0/listens/0": ["address", "port", "tls", "http2", "default_server"],
    "blocks/0/locations/0": [
        *("match", "pattern", "handler", "root", "try_files", "autoindex", "upstream", "php_pool", "proxy_uri"),
        *("upstream_protocol", "websocket", "request_headers", "connect_timeout_s", "return_code", "return_value"),
        *("headers", "expires"),
        *("access_rules", "basic_auth_realm", "basic_auth_users", "rate_limit_rps", "rate_limit_burst", "gzip"),
    ],
    "upstreams/0": ["name", "balancing", "keepalive", "servers"],
    "upstreams/0/servers/0": ["address", "weight", "max_fails", "backup"],
    "php_pools/0": ["name", "address", "settings"],
    "stream_servers/0": [
        *("name", "protocol", "address", "port", "upstream", "connect_timeout_s", "session_timeout_s"),
        *("proxy_protocol", "allowed", "certificate", "routes", "upstream_tls", "upstream_tls_name", "upstream_tls_ca"),
    ],
    "stream_servers/0/routes/0": ["name", "upstream"],
}
WHOLE: dict[str, Any] = SITE | {
    "name": "probe",
    "upstreams": [{"name": "app", "servers": [{"address": "127.0.0.1:3000"}]}],
    "php_pools": [{"name": "php", "address": "127.0.0.1:9000"}],
    "stream_servers": [
        {"name": "db", "port": 5432, "upstream": "app", "routes": [{"name": "db.example", "upstream": "app"}]}
    ],
}
WRONG = [None, True, -1, 1.5, 10**30, "", "\0", [7], [None], {"a": 7}]


def with_value(place: str, name: str, value: object) -> dict[str, Any]:
    """WHOLE with one member put in the place of what is there."""

    def changed(data: Any, path: list[str]) -> Any:
        if not path:
            return {**data, name: value}
        key, rest = path[0], path[1:]
        if isinstance(data, list):
            return [changed(item, rest) if str(n) == key else item for n, item in enumerate(data)]
        return {**data, key: changed(data[key], rest)}

    found: dict[str, Any] = changed(WHOLE, [part for part in place.split("/") if part])
    return found


@pytest.mark.parametrize("place", PLACES)
def test_wrong_value_types_are_reported_at_their_field(owner: Caller, place: str) -> None:
    """Some of the values are valid in some fields; each rejection names the field of the value."""
    refused = 0
    for name in PLACES[place]:
        pointer = f"/{place}/{name}" if place else f"/{name}"
        for value in WRONG:
            answer = owner.post("sites/?dry_run=true", with_value(place, name, value))
            assert answer.status_code in {200, 422}, (pointer, value, answer.content)
            if answer.status_code == 422:
                refused += 1
                found = pointers(answer)
                near = [item for item in found if item == pointer or item.startswith(f"{pointer}/")]
                # What is empty may be missed elsewhere: a user without a realm, a handler without its upstream.
                assert near or value in ("", [], {}, None, 7, True, -1), (pointer, value, answer.json())
                texts = [item["detail"] for item in answer.json()["errors"]]
                assert len(set(zip(found, texts, strict=True))) == len(texts), "said twice"
    assert refused > 5 * len(PLACES[place])
    assert not Site.objects.exists()


@pytest.mark.parametrize(
    ("place", "name", "value", "pointer", "words"),
    [
        ("", "name", "Shop!", "/name", "lowercase letters"),
        ("", "team", None, "/team", "short name of the team"),
        ("", "name", "", "/name", "must not be empty"),
        ("", "bogus", 1, "/bogus", "blocks"),
        ("", "blocks", 5, "/blocks", "JSON list"),
        ("blocks/0", "names", [1], "/blocks/0/names/0", "Send a JSON string."),
        ("blocks/0", "names", ["ok.example", "test..com"], "/blocks/0/names/1", "two dots"),
        ("blocks/0", "names", ["a.example", "a.example"], "/blocks/0/names/1", "appears twice"),
        ("blocks/0", "try_files", 5, "/blocks/0/try_files", "Enter a list such as"),
        ("blocks/0", "gzip", "yes", "/blocks/0/gzip", "on, off"),
        ("blocks/0", "bogus", 1, "/blocks/0/bogus", "listens"),
        ("blocks/0", "listens", [{"port": 80}, {"port": 80}], "/blocks/0/listens/1/port", "appears twice"),
        ("blocks/0", "listens", ["80"], "/blocks/0/listens/0", "JSON object"),
        ("blocks/0/listens/0", "port", 80000, "/blocks/0/listens/0/port", "from 1 to 65535"),
        ("blocks/0/listens/0", "port", "http", "/blocks/0/listens/0/port", "from 1 to 65535"),
        ("blocks/0/listens/0", "bogus", 1, "/blocks/0/listens/0/bogus", "default_server"),
        ("blocks/0/locations/0", "return_value", None, "/blocks/0/locations/0/return_value", "null"),
        ("blocks/0/locations/0", "pattern", None, "/blocks/0/locations/0/pattern", "null"),
        ("blocks/0/locations/0", "pattern", "", "/blocks/0/locations/0/pattern", "starts with /"),
        ("blocks/0/locations/0", "pattern", "/" * 600, "/blocks/0/locations/0/pattern", "this value has 600"),
        ("blocks/0/locations/0", "handler", "teapot", "/blocks/0/locations/0/handler", "static, php, proxy"),
        ("upstreams/0/servers/0", "weight", 0, "/upstreams/0/servers/0/weight", "from 1 to 1000"),
        ("upstreams/0/servers/0", "address", "here", "/upstreams/0/servers/0/address", "host:port"),
    ],
)
def test_type_errors_name_the_expected_value(
    owner: Caller, place: str, name: str, value: object, pointer: str, words: str
) -> None:
    answer = owner.post("sites/", with_value(place, name, value))
    assert answer.status_code == 422, answer.content
    assert pointers(answer) == [pointer]
    assert words in answer.json()["errors"][0]["detail"]
    assert not Site.objects.exists()


def test_directives_of_unknown_server_are_reported(admin: Caller) -> None:
    for value, place in (
        ({"caddy": "x"}, "/caddy"),
        ({"nginx": 7}, "/nginx/text"),
        ("x", ""),
        ({"nginx": None}, "/nginx/text"),
    ):
        answer = admin.post("sites/", with_value("blocks/0", "snippets", value))
        assert answer.status_code == 422 and pointers(answer) == [f"/blocks/0/snippets{place}"], answer.content
    assert not Site.objects.exists()


def test_duplicate_name_is_reported_at_name_field(owner: Caller) -> None:
    assert owner.post("sites/", WHOLE).status_code == 201
    again = owner.post("sites/", WHOLE)
    assert again.status_code == 422 and pointers(again) == ["/name"]
    assert "site with this name already exists: “probe”" in again.json()["detail"]


def test_quick_create_errors_name_its_own_fields(owner: Caller) -> None:
    body = {"team": "shop", "name": "new", "domains": ["new.example"], "root": "/srv/www/new"}
    wrong: list[tuple[dict[str, object], str]] = [
        ({"domains": ["ok.example", "a b"]}, "/domains"),
        ({"address": "300.0.0.1"}, "/address"),
        ({"root": "relative"}, "/root"),
        ({"root": "", "upstream": "nowhere"}, "/upstream"),
    ]
    for change, pointer in wrong:
        answer = owner.post("sites/quick/", body | change)
        assert answer.status_code == 422 and pointers(answer) == [pointer], answer.content


@pytest.mark.parametrize(
    ("path", "body", "pointer", "words"),
    [
        ("blocks/", {"site": "none", "listens": [], "names": []}, "/site", "“none” does not exist"),
        ("blocks/", {"site": "shop", "listens": 5, "names": []}, "/listens", "JSON list"),
        ("blocks/", {"site": "shop", "listens": [{"port": 0}], "names": []}, "/listens/0/port", "from 1 to 65535"),
        ("blocks/", {"site": "shop", "listens": [], "names": [""]}, "/names/0", "must not be empty"),
        ("blocks/", {"site": "shop", "listens": []}, "/names", "This field is required. Send a JSON list"),
        ("blocks/", {"site": "shop", "listens": [], "names": [], "gzip": "x"}, "/gzip", "on, off"),
        ("blocks/", {"site": "shop", "listens": [], "names": [], "autoindex": "x"}, "/autoindex", "true or false"),
        (
            "blocks/",
            {"site": "shop", "listens": [], "names": [], "root": "/srv/" + "a" * 595},
            "/root",
            "this value has 600",
        ),
        ("sites/quick/", {"team": "shop", "name": "n", "domains": [], "port": "http"}, "/port", "from 1 to 65535"),
        (
            "certificates/self-sign/",
            {"team": "shop", "name": "c", "names": ["a.example", "a b"]},
            "/names/1",
            "letters",
        ),
        ("deployments/", {"sites": ["shop"], "confirm": "yes"}, "/confirm", "true or false"),
        ("sites/bulk/", {"action": "enable", "sites": []}, "/sites", "at least one"),
        ("scenarios/", {"name": "n", "tool": "curl", "arguments": {}, "paths": ["/"]}, "/tool", "ab, h2load, wrk"),
        (
            "scenarios/",
            {"name": "n", "tool": "ab", "arguments": {"requests": -1, "concurrency": 2}, "paths": ["/"]},
            "/arguments/requests",
            "from 1 to",
        ),
    ],
)
def test_body_field_errors_list_allowed_values(
    owner: Caller, path: str, body: dict[str, object], pointer: str, words: str
) -> None:
    assert owner.post("sites/", SITE).status_code == 201
    answer = owner.post(path, body)
    assert answer.status_code == 422, answer.content
    assert pointers(answer) == [pointer]
    assert words in answer.json()["errors"][0]["detail"]
