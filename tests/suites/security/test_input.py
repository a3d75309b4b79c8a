"""Hostile values on every input: pages, API, sorting, filters and bodies of other shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from panel.accounts.models import Team
from panel.websites.models import Location, ServerName, Site
from tests.api.caller import Caller, caller_of
from tests.suites.security import world as marks
from tests.suites.security.addresses import addresses
from tests.suites.security.conftest import session_of
from tests.suites.security.test_every_url import fingerprint
from tests.suites.security.world import World

HOSTILE = [
    "a\r\nb",
    "a\nb",
    "a\0b",
    "a;b",
    "a{b",
    "a}b",
    "$a",
    "a'b",
    'a"b',
    "a\\b",
    "../a",
    "a b",
    "-a",
    "a#b",
    "a\u2028b",
    "ａ",
    "",
]


@pytest.fixture
def admin(world: World) -> Caller:
    return caller_of(world.admin)


@pytest.mark.parametrize("value", HOSTILE)
def test_unsafe_file_names_are_rejected_by_page_and_api(world: World, admin: Caller, value: str) -> None:
    before = fingerprint()
    definition = {"name": value, "team": "owners", "blocks": []}
    quick = {"name": value, "team": "owners", "domains": ["a.example"], "root": "/srv/www/a"}
    clone = {"name": value}
    host = {"name": value, "address": "127.0.0.1", "username": "root", "password": "x"}
    certificate = {"name": value, "team": "owners", "names": ["a.example"]}
    answers = [
        admin.post("sites/", definition),
        admin.post("sites/quick/", quick),
        admin.post(f"sites/{marks.NAME}/clone/", clone),
        admin.patch(f"sites/{marks.NAME}/", {"name": value}),
        admin.put(f"sites/{marks.NAME}/definition/", definition),
        admin.post("hosts/", host),
        admin.post("certificates/self-sign/", certificate),
        admin.post("upstreams/", {"site": marks.NAME, "name": value, "servers": []}),
        admin.post("php-pools/", {"site": marks.NAME, "name": value, "address": "127.0.0.1:9000"}),
    ]
    assert [answer.status_code for answer in answers] == [422] * len(answers), [a.content[:200] for a in answers]
    browser = session_of(world.admin)
    pages = {
        "/sites/+new/": {"name": value, "domains": "a.example", "root": "/srv/www/a", "team": world.team.pk},
        f"/sites/{marks.NAME}/clone/": {"name": value},
        "/settings/users/new/": {"username": value, "role": "viewer", "password": "a fairly long secret"},
    }
    for path, data in pages.items():
        answer = browser.post(path, data)
        assert answer.status_code in {200, 422}, f"{path} -> {answer.status_code}"
    assert fingerprint() == before


@pytest.mark.parametrize("value", ["a\r\nX-Injected: 1", "a\nb", "a\0b", "a\x1bb", "a\u2028b"])
def test_models_reject_line_breaks(world: World, admin: Caller, value: str) -> None:
    before = fingerprint()
    location, block = f"locations/{marks.KEY}/", f"blocks/{marks.KEY}/"
    answers = [
        admin.patch(location, {"return_value": value, "handler": "return", "return_code": 302}),
        admin.patch(location, {"headers": [{"name": "X-A", "value": value}]}),
        admin.patch(location, {"basic_auth_realm": value}),
        admin.patch(location, {"pattern": f"/{value}"}),
        admin.patch(block, {"root": f"/srv/www/{value}"}),
        admin.patch(block, {"names": [value]}),
        admin.patch(block, {"access_log": f"/srv/www/{value}"}),
        admin.patch(f"sites/{marks.NAME}/", {"health_path": f"/{value}"}),
        admin.post("teams/", {"name": value, "slug": "x"}),
        admin.patch(f"scenarios/{marks.KEY}/", {"paths": [f"/{value}"]}),
        admin.patch(f"scenarios/{marks.KEY}/", {"name": f"Load{value}"}),
    ]
    assert [answer.status_code for answer in answers] == [422] * len(answers), [a.content[:200] for a in answers]
    assert fingerprint() == before


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/x-www-form-urlencoded", b"notes=x", 415),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="notes"\r\n\r\nx',
            415,
        ),
        ("text/plain", b'{"notes": "x"}', 415),
        ("application/xml", b"<notes>x</notes>", 415),
        ("application/json", b"{notes: x}", 400),
        ("application/json", b'{"notes": NaN}', 400),
        ("application/json", b"\xff\xfe", 400),
        ("application/json", b'{"notes": "\\ud800"}', 400),
        ("application/json", b'{"\\udfff": 1}', 400),
        ("application/json", b'{"notes": {"a": [1]}}', 422),
        ("application/json", b'{"notes": ["x"]}', 422),
        ("application/json", b'[{"notes": "x"}]', 422),
        ("application/json", b'"notes"', 422),
        ("application/json", b'{"row_version": 99}', 422),
        ("application/json", b'{"id": 1, "team_id": 1}', 422),
    ],
)
def test_non_object_json_bodies_change_nothing(
    world: World, admin: Caller, content_type: str, body: bytes, status: int
) -> None:
    before = fingerprint()
    for method in ("PATCH", "PUT"):
        path = f"/api/v1/sites/{marks.NAME}/" + ("definition/" if method == "PUT" else "")
        answer = admin.client.generic(method, path, body, content_type=content_type)
        assert answer.status_code == status or (method == "PUT" and answer.status_code in {400, 422}), answer.content
        assert answer["Content-Type"] == "application/problem+json"
    assert fingerprint() == before


def test_method_override_header_is_ignored(world: World, admin: Caller) -> None:
    answer = admin.post(f"sites/{marks.NAME}/", {}, X_HTTP_Method_Override="DELETE")
    assert answer.status_code == 405 and Site.objects.filter(name=marks.NAME).exists()


LISTS = sorted({item.path for item in addresses() if item.name.startswith("api:") and item.name.endswith("-list")})


def test_sortable_lists_are_found() -> None:
    assert len(LISTS) >= 18


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ordering=st.one_of(st.text(max_size=30), st.sampled_from(["1;select 1", "id)--", "-team__members__password", "?"])),
    name=st.sampled_from(["name", "name__in", "id", "cursor", "created_at__gte", "q", "web_server", "number"]),
    value=st.text(max_size=20),
)
def test_sorting_and_filters_never_reach_database_raw(
    world: World, admin: Caller, ordering: str, name: str, value: str
) -> None:
    for path in LISTS[:6]:
        assert admin.client.get(path, {"ordering": ordering}).status_code in {200, 400}
        assert admin.client.get(path, {name: value}).status_code in {200, 400}


@pytest.mark.parametrize("path", ["/sites/", "/hosts/", "/deployments/", "/benchmarks/", "/audit/", "/settings/users/"])
@pytest.mark.parametrize("ordering", ["password", "-team__members__password", "1;select 1", "\0", "?", "'"])
def test_pages_ignore_or_reject_unknown_sorting(world: World, path: str, ordering: str) -> None:
    answer = session_of(world.admin).get(path, {"ordering": ordering, "page": ordering, "q": ordering})
    assert answer.status_code in {200, 400}


def test_roles_allow_expected_actions_per_object(world: World) -> None:
    """The matrix of roles and actions on own and foreign objects, over the API."""
    people = {"admin": world.admin, "owner": world.owner, "viewer": world.viewer, "outsider": world.outsider}
    expected = {
        ("GET", f"sites/{marks.NAME}/"): (200, 200, 200, 404),
        ("GET", f"certificates/{marks.NAME}/"): (200, 200, 200, 404),
        ("GET", f"locations/{marks.KEY}/"): (200, 200, 200, 404),
        ("GET", f"snippets/{marks.KEY}/"): (200, 200, 200, 404),
        ("GET", f"revisions/{marks.KEY}/files/"): (200, 200, 200, 404),
        ("GET", f"drifts/{marks.KEY}/"): (200, 200, 200, 404),
        ("GET", f"deployments/{marks.DEPLOYMENT}/"): (200, 200, 200, 404),
        ("GET", f"runs/{marks.RUN}/"): (200, 200, 200, 404),
        ("GET", f"comparisons/{marks.COMPARISON}/"): (200, 200, 200, 404),
        ("GET", f"audit/{marks.KEY}/"): (200, 200, 200, 404),
        ("GET", "users/"): (200, 403, 403, 403),
        ("GET", f"hosts/{marks.HOST}/"): (200, 200, 200, 200),
        ("PATCH", f"sites/{marks.NAME}/"): (200, 200, 403, 404),
        ("PATCH", f"locations/{marks.KEY}/"): (200, 200, 403, 404),
        ("PATCH", f"blocks/{marks.KEY}/"): (200, 200, 403, 404),
        ("PATCH", f"snippets/{marks.KEY}/"): (200, 403, 403, 403),
        ("PATCH", f"hosts/{marks.HOST}/"): (200, 403, 403, 403),
        ("PATCH", f"scenarios/{marks.KEY}/"): (200, 200, 403, 404),
        ("POST", f"runs/{marks.RUN}/cancel/"): (409, 409, 403, 404),
        ("POST", f"comparisons/{marks.COMPARISON}/cancel/"): (409, 409, 403, 404),
        ("POST", f"deployments/{marks.DEPLOYMENT}/cancel/"): (409, 409, 403, 404),
        ("DELETE", f"pins/{marks.KEY}/?dry_run=true"): (200, 403, 403, 403),
        ("DELETE", f"certificates/{marks.NAME}/"): (409, 409, 403, 404),
    }
    bodies: dict[str, Any] = {"PATCH sites": {"notes": "x"}, "PATCH snippets": {"text": "add_header A b;"}}
    wrong = []
    for (method, path), statuses in expected.items():
        for (role, person), status in zip(people.items(), statuses, strict=True):
            data = bodies.get(f"{method} {path.split('/')[0]}", {} if method != "GET" else None)
            got = caller_of(person).call(method, path, data).status_code
            if got != status:
                wrong.append(f"{role}: {method} {path} -> {got}, not {status}")
    assert not wrong, "\n".join(wrong)


def test_definition_rejects_objects_of_other_teams(world: World) -> None:
    """Certificate, upstream and owner of another team."""
    outsider = caller_of(world.outsider)
    base = {"name": "mine", "team": "others"}
    listen = {"listens": [{"port": 443, "tls": True}], "names": ["m.example"]}
    stolen = {"pattern": "/", "handler": "proxy", "upstream": marks.NAME}
    answers = [
        outsider.post("sites/", base | {"blocks": [{**listen, "certificate": marks.NAME}]}),
        outsider.post("sites/", base | {"blocks": [{**listen, "locations": [stolen]}]}),
        outsider.post("sites/", base | {"team": "owners", "blocks": []}),
        outsider.post(f"sites/{marks.NAME}/clone/", {"name": "copy"}),
        outsider.post("blocks/", {"site": marks.NAME, **listen}),
        outsider.post("sites/quick/", base | {"domains": [], "root": "/srv/www/x", "certificate": marks.NAME}),
    ]
    assert [answer.status_code for answer in answers] == [422, 422, 422, 404, 422, 422], [a.content for a in answers]
    assert Site.objects.count() == 1


def test_pages_require_csrf_token(world: World) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(world.admin)
    before, wrong = fingerprint(), []
    for address in addresses():
        if address.name.startswith("api:schema") or address.name == "accounts:self_check":
            continue
        response = client.post(address.path, json.dumps({}), content_type="application/json")
        if response.status_code not in {403, 404, 405}:
            wrong.append(f"{address} -> {response.status_code}")
    assert not wrong, "\n".join(wrong)
    assert fingerprint() == before
    assert Team.objects.count() == 2 and Location.objects.count() == 1 and ServerName.objects.count() == 1


def test_null_characters_never_cause_server_error(world: World, admin: Caller) -> None:
    """PostgreSQL rejects the character in any query; SQLite finds no row."""
    browser, null = session_of(world.admin), "a\0"
    schedule = {
        "name": "x",
        "cron": "@daily",
        "timezone": "UTC",
        "suite": "http3-2019",
        "preset": "short",
        "host": null,
    }
    answers = [
        browser.get("/benchmarks/suites/http3-2019/expected?host=%00"),
        browser.get("/benchmarks/new?q=%00&scenario=%00"),
        browser.get("/reports/schedules/new/scenario?q=%00"),
        browser.post("/benchmarks/suites/http3-2019/start", {"host": null, "preset": "short"}),
        browser.post("/benchmarks/new", {"scenario": null, "sites": [null]}),
        browser.post("/reports/schedules/new/suite", schedule),
        admin.post("schedules/", {"name": "x", "cron": "@daily", "kind": "suite", "host": null, "team": null}),
    ]
    assert {answer.status_code for answer in answers} <= {200, 400, 404, 422}
