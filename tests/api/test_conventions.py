"""Conventions that hold for every URL of the API."""

from __future__ import annotations

import datetime as dt
import json
from unittest.mock import patch

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from panel.accounts.models import Team
from panel.api import idempotency
from panel.api.models import IdempotencyRecord
from panel.audit.models import AuditEntry
from panel.websites.models import ServerBlock, ServerName, Site
from tests.api.caller import SITE, Caller, caller_of, pointers
from tests.support.cast import Cast


@pytest.fixture
def sites(people: Cast) -> list[str]:
    """Rows as lists show them; how they come about by the API is tests/api/test_sites.py's."""
    names = [f"site-{number:02}" for number in range(7)]
    for name in names:
        site = Site.objects.create(name=name, team=people.team)
        block = site.blocks.create(root="/srv/www/shop")
        block.locations.create(pattern="/")
    return names


def names_in(answer: object) -> list[str]:
    return [row["name"] for row in answer.json()["results"]]  # type: ignore[attr-defined]


# --- who ---


def test_missing_and_invalid_tokens_return_401_with_challenge(anonymous: Client, people: Cast) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
    ):
        answer = anonymous.get("/api/v1/me/", headers=headers)
        assert answer.status_code == 401, headers
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert answer["Content-Type"] == "application/problem+json"


def test_me_returns_role_and_scopes(owner: Caller) -> None:
    answer = owner.get("me/").json()
    assert (answer["username"], answer["role"], answer["teams"]) == ("olaf", "operator", ["shop"])
    assert answer["scopes"] == ["benchmark", "deploy", "read", "sites"]


def test_token_scopes_limit_operations(people: Cast) -> None:
    reader = caller_of(people.owner, ["read"])
    answer = reader.post("sites/", SITE)
    assert answer.status_code == 403 and "scope sites" in answer.json()["detail"]
    assert not Site.objects.exists()
    assert caller_of(people.owner, ["sites"]).post("sites/", SITE).status_code == 201
    assert reader.get("sites/shop/").status_code == 200
    assert caller_of(people.admin, ["read", "sites"]).get("users/").status_code == 403


def test_token_source_address_is_checked_against_peer_not_header(people: Cast) -> None:
    limited = caller_of(people.owner, addresses=["192.0.2.7"])
    assert limited.get("me/").status_code == 401
    assert limited.get("me/", X_Forwarded_For="192.0.2.7").status_code == 401
    assert limited.client.get("/api/v1/me/", REMOTE_ADDR="192.0.2.7").status_code == 200
    assert caller_of(people.owner, addresses=[]).get("me/").status_code == 401


def test_session_requests_require_csrf_token_for_changes(people: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.owner)
    assert client.get("/api/v1/me/").json()["scopes"] is None
    refused = client.post("/api/v1/sites/", json.dumps(SITE), content_type="application/json")
    assert refused.status_code == 403 and not Site.objects.exists()
    client.get("/account/")
    token = client.cookies["paddock_csrf"].value
    made = client.post(
        "/api/v1/sites/", json.dumps(SITE), content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert made.status_code == 201


def test_audit_entry_names_token(owner: Caller) -> None:
    owner.post("sites/", SITE)
    entry = AuditEntry.objects.get(action="site.create")
    assert entry.token_prefix == owner.plain[:12] and entry.address == "127.0.0.1"
    assert entry.request_id


# --- errors ---


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nowhere/", 404),
        ("POST", "nowhere/", 404),
        ("GET", "sites/none/", 404),
        ("GET", "locations/abc/", 404),
        ("DELETE", "sites/", 405),
        ("PUT", "me/", 405),
        ("GET", "sites/?unknown=1", 400),
    ],
)
def test_errors_are_problem_details_with_request_id(owner: Caller, method: str, path: str, status: int) -> None:
    answer = owner.call(method, path)
    body = answer.json()
    assert answer.status_code == body["status"] == status
    assert answer["Content-Type"] == "application/problem+json"
    assert body["request_id"] == answer["X-Request-Id"]
    assert set(body) == {"type", "title", "status", "detail", "errors", "request_id"}
    assert owner.client.get(body["type"]).json()["status"] == status


def test_wrong_content_types_and_malformed_bodies_are_reported(owner: Caller) -> None:
    form = owner.client.post("/api/v1/sites/", {"name": "x"})
    assert form.status_code == 415
    plain = owner.client.generic("POST", "/api/v1/sites/", "name=x", content_type="text/plain")
    assert plain.status_code == 415
    broken = owner.client.generic("POST", "/api/v1/sites/", "{", content_type="application/json")
    assert broken.status_code == 400
    deep = owner.client.generic("POST", "/api/v1/sites/", "[" * 100_000, content_type="application/json")
    assert deep.status_code == 400
    assert not Site.objects.exists()


@pytest.mark.parametrize("body", ["null", "1", '"x"', "[]", "[1]", "[[]]", "true", '{"name": null}', "{}"])
def test_bodies_of_another_shape_are_rejected(owner: Caller, body: str) -> None:
    answer = owner.client.generic("POST", "/api/v1/sites/", body, content_type="application/json")
    assert answer.status_code in {400, 422}, answer.content
    assert not Site.objects.exists()


def test_internal_error_response_reveals_no_details(owner: Caller) -> None:
    with patch("panel.websites.api.sites.sites_visible", side_effect=RuntimeError("secret inside")):
        answer = owner.get("sites/")
    assert answer.status_code == 500
    assert b"secret inside" not in answer.content and b"Traceback" not in answer.content
    assert answer.json()["type"].endswith("/internal/")


def test_unknown_host_header_is_rejected_as_problem_details(owner: Caller) -> None:
    answer = owner.get("me/", Host="evil.example")
    assert answer.status_code == 400 and answer["Content-Type"] == "application/problem+json"


def test_definition_errors_carry_json_pointers(owner: Caller) -> None:
    bad = SITE | {"blocks": [SITE["blocks"][0] | {"locations": [{"pattern": "/"}, {"pattern": "no-slash"}]}]}
    answer = owner.post("sites/", bad)
    assert answer.status_code == 422
    assert pointers(answer) == ["/blocks/0/locations/1/pattern"]
    unknown = owner.post("sites/", SITE | {"colour": "blue"})
    assert unknown.status_code == 422 and pointers(unknown) == ["/colour"]


def test_unknown_fields_are_rejected(owner: Caller, admin: Caller) -> None:
    answer = admin.post("teams/", {"name": "Ops", "slug": "ops", "owner": "x"})
    assert answer.status_code == 422 and pointers(answer) == ["/owner"]
    assert not Team.objects.filter(slug="ops").exists()


# --- lists ---


def test_cursor_pagination_has_no_gaps(owner: Caller, sites: list[str]) -> None:
    seen: list[str] = []
    path = "sites/?limit=3"
    while path:
        answer = owner.get(path).json()
        seen += [row["name"] for row in answer["results"]]
        path = (answer["next"] or "").partition("/api/v1/")[2]
    assert seen == sites
    backwards = names_in(owner.get("sites/?ordering=-name&limit=1000"))
    assert backwards == sites[::-1]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("name=site-03", 1),
        ("name__in=site-01,site-02", 2),
        ("name__icontains=SITE-0", 7),
        ("name__icontains=nothing", 0),
        ("enabled=true&team__slug=shop", 7),
        ("enabled=false", 0),
        ("created_at__gte=2999-01-01T00:00:00Z", 0),
        ("created_at__gte=1306-12-12T02:58:33%2B18:23", 7),  # PostgreSQL refuses such an offset
        ("created_at__gte=1306-12-12", 7),
    ],
)
def test_lists_filter_by_name(owner: Caller, sites: list[str], query: str, count: int) -> None:
    assert len(names_in(owner.get(f"sites/?{query}"))) == count


def test_site_with_several_matching_names_is_listed_once(owner: Caller, sites: list[str]) -> None:
    block = ServerBlock.objects.create(site=Site.objects.get(name=sites[0]))
    for name in ("www.shop.example", "shop.example"):
        ServerName.objects.create(block=block, name=name)
    assert names_in(owner.get("sites/?blocks__names__name__icontains=shop.example")) == [sites[0]]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("colour=blue", "?colour"),
        ("name__regex=.*", "?name__regex"),
        ("team__members__password__icontains=a", "?team__members__password__icontains"),
        ("enabled=perhaps", "?enabled"),
        ("created_at__gte=yesterday", "?created_at__gte"),
        ("created_at__gte=0001-01-01T00:00:00%2B18:00", "?created_at__gte"),
        ("web_server=x", "?web_server"),
        ("limit=0", "?limit"),
        ("limit=1001", "?limit"),
        ("limit=-1", "?limit"),
        ("limit=1e3", "?limit"),
        ("cursor=%00", "?cursor"),
        ("cursor=rubbish", "?cursor"),
        ("cursor=cD0lMDA=", "?cursor"),
        ("ordering=password", "?ordering"),
        ("ordering=team__members__password", "?ordering"),
        ("ordering=name;drop table", "?ordering"),
        ("ordering=--name", "?ordering"),
        ("ordering=", "?ordering"),
        ("ordering=name&ordering=id", "?ordering"),
        ("fields=name,secret", "?fields"),
        ("fields=", "?fields"),
        ("format=html", "?format"),
        ("dry_run=true", "?dry_run"),
    ],
)
def test_invalid_query_parameters_are_rejected(owner: Caller, query: str, pointer: str) -> None:
    answer = owner.get(f"sites/?{query}")
    assert answer.status_code == 400, answer.content
    assert pointers(answer) == [pointer]


@pytest.mark.parametrize("name", ["name", "name__in", "web_server__in", "team__slug", "created_at__gte", "enabled"])
@pytest.mark.parametrize("value", ["", ",", " "])
def test_empty_id_filter_does_not_match_everything(owner: Caller, name: str, value: str) -> None:
    answer = owner.get(f"sites/?{name}={value}")
    assert answer.status_code == 400 and pointers(answer) == [f"?{name}"], answer.content


def test_id_filter_accepts_several_ids(owner: Caller, people: Cast) -> None:
    assert owner.post("sites/", SITE | {"web_server": people.nginx.pk}).status_code == 201
    assert len(owner.get(f"sites/?web_server__in={people.nginx.pk},999").json()["results"]) == 1
    assert owner.get("sites/?web_server__in=999").json()["results"] == []
    assert owner.get("sites/?web_server__in=1,x").status_code == 400


@pytest.mark.parametrize("path", ["stream-servers/?port__in", "locations/?block__in", "sites/?web_server__in"])
def test_number_that_no_column_can_hold_matches_nothing(owner: Caller, sites: list[str], path: str) -> None:
    response = owner.get(f"{path}=3173405173222210011136,-3173405173222210011136")
    assert response.status_code == 200
    assert response.json()["results"] == []


def test_empty_filter_value_matches_empty_field(owner: Caller) -> None:
    assert owner.post("sites/", SITE).status_code == 201
    assert [row["pattern"] for row in owner.get("locations/?match=").json()["results"]] == ["/"]
    assert [row["pattern"] for row in owner.get("locations/?match==").json()["results"]] == ["/old"]


def test_fields_parameter_limits_response(owner: Caller, sites: list[str]) -> None:
    assert owner.get("sites/?fields=name,team&limit=1").json()["results"] == [{"name": "site-00", "team": "shop"}]
    assert owner.get("sites/site-00/?fields=name").json() == {"name": "site-00"}


def test_list_query_count_does_not_grow_with_rows(
    owner: Caller, sites: list[str], django_assert_max_num_queries: object
) -> None:
    with django_assert_max_num_queries(8):  # type: ignore[operator]
        assert len(names_in(owner.get("sites/"))) == 7


# --- versions ---


def test_if_match_prevents_lost_updates(owner: Caller, sites: list[str]) -> None:
    first = owner.get("sites/site-00/")
    changed = owner.patch("sites/site-00/", {"notes": "mine"}, If_Match=first["ETag"])
    assert changed.status_code == 200 and changed["ETag"] != first["ETag"]
    late = owner.patch("sites/site-00/", {"notes": "yours"}, If_Match=first["ETag"])
    assert late.status_code == 412 and pointers(late) == ["@If-Match"]
    assert Site.objects.get(name="site-00").notes == "mine"
    assert owner.patch("sites/site-00/", {"notes": "any"}, If_Match="*").status_code == 200
    assert owner.patch("sites/site-00/", {"notes": "x"}, If_Match='"abc"').status_code == 412
    assert owner.delete("sites/site-00/", If_Match=first["ETag"]).status_code == 412
    assert owner.put("sites/site-00/definition/", SITE, If_Match=first["ETag"]).status_code == 412


def test_site_etag_changes_with_its_parts(owner: Caller) -> None:
    owner.post("sites/", SITE)
    before = owner.get("sites/shop/definition/")["ETag"]
    block = owner.get("blocks/?site__name=shop").json()["results"][0]
    assert owner.patch(f"blocks/{block['id']}/", {"autoindex": True}).status_code == 200
    after = owner.get("sites/shop/definition/")["ETag"]
    assert after != before
    assert owner.put("sites/shop/definition/", SITE, If_Match=before).status_code == 412


def test_if_none_match_returns_304(owner: Caller, sites: list[str]) -> None:
    tag = owner.get("sites/site-00/")["ETag"]
    answer = owner.get("sites/site-00/", If_None_Match=tag)
    assert answer.status_code == 304 and answer.content == b""


# --- dry runs, repetition, bulk ---


def test_dry_run_returns_result_without_changes(owner: Caller) -> None:
    answer = owner.post("sites/?dry_run=true", SITE)
    assert answer.status_code == 200 and answer["Dry-Run"] == "true" and answer.json()["name"] == "shop"
    assert not Site.objects.exists() and not AuditEntry.objects.filter(action="site.create").exists()
    assert owner.post("sites/?dry_run=true", SITE | {"name": "a b"}).status_code == 422
    assert owner.post("sites/?dry_run=yes", SITE).status_code == 400
    assert owner.post("sites/?dry_run=false", SITE).status_code == 201
    assert owner.delete("sites/shop/?dry_run=true").status_code == 200
    assert Site.objects.exists()


def test_idempotency_key_runs_request_once(owner: Caller) -> None:
    first = owner.post("sites/", SITE, Idempotency_Key="abc")
    again = owner.post("sites/", SITE, Idempotency_Key="abc")
    assert first.status_code == again.status_code == 201
    assert again.json() == first.json() and again["Idempotency-Replayed"] == "true"
    assert again["Location"] == first["Location"]
    assert Site.objects.count() == 1
    assert owner.post("sites/", SITE).status_code == 422, "without the key it is a new call, and the name is taken"


def test_idempotency_key_is_rejected_for_different_request(owner: Caller) -> None:
    owner.post("sites/", SITE, Idempotency_Key="abc")
    other = owner.post("sites/", SITE | {"name": "other"}, Idempotency_Key="abc")
    assert other.status_code == 422 and other.json()["type"].endswith("/key-reused/")
    assert owner.post("sites/bulk/", {"action": "enable", "sites": ["shop"]}, Idempotency_Key="abc").status_code == 422
    assert Site.objects.count() == 1


def test_idempotency_key_belongs_to_its_user(people: Cast, owner: Caller, admin: Caller) -> None:
    owner.post("sites/", SITE, Idempotency_Key="abc")
    other = admin.post("teams/", {"name": "Ops", "slug": "ops"}, Idempotency_Key="abc")
    assert other.status_code == 201


def test_idempotency_key_of_running_request_returns_409(people: Cast, owner: Caller) -> None:
    owner.post("sites/", SITE, Idempotency_Key="abc")
    IdempotencyRecord.objects.update(status=None)
    answer = owner.post("sites/", SITE, Idempotency_Key="abc")
    assert answer.status_code == 409 and answer.json()["type"].endswith("/in-progress/")


def cut_off(seconds: int) -> IdempotencyRecord:
    """The record as a process leaves it that dies while it answers."""
    started = timezone.now() - dt.timedelta(seconds=seconds)
    IdempotencyRecord.objects.update(status=None, headers={}, body="", created_at=started)
    return IdempotencyRecord.objects.get()


def test_interrupted_request_can_be_repeated_after_two_minutes(owner: Caller) -> None:
    owner.post("sites/", SITE, Idempotency_Key="abc")
    Site.objects.all().delete()  # what the first call did was rolled back with it
    cut_off(110)
    assert owner.post("sites/", SITE, Idempotency_Key="abc").status_code == 409
    cut_off(121)
    other = owner.post("sites/", SITE | {"name": "other"}, Idempotency_Key="abc")
    assert other.json()["type"].endswith("/key-reused/"), "only the same call takes it over"
    assert owner.post("sites/", SITE, Idempotency_Key="abc").status_code == 201
    again = owner.post("sites/", SITE, Idempotency_Key="abc")
    assert again.status_code == 201 and again["Idempotency-Replayed"] == "true"
    assert Site.objects.count() == 1


def test_one_of_two_repeats_takes_over_and_late_first_request_keeps_response(owner: Caller) -> None:
    owner.post("sites/", SITE, Idempotency_Key="abc")
    first, second, third = cut_off(121), IdempotencyRecord.objects.get(), IdempotencyRecord.objects.get()
    assert idempotency._take_over(second) and not idempotency._take_over(third)
    idempotency.release(first)
    idempotency._store(first, HttpResponse("late"), ())
    assert IdempotencyRecord.objects.get().status is None
    idempotency._store(second, HttpResponse("answer"), ())
    kept = IdempotencyRecord.objects.get()
    assert (kept.status, kept.body) == (200, "answer")


def test_internal_error_is_not_stored_for_idempotency_key(owner: Caller) -> None:
    with patch("panel.websites.api.sites.services.site_define", side_effect=RuntimeError):
        assert owner.post("sites/", SITE, Idempotency_Key="abc").status_code == 500
    assert owner.post("sites/", SITE, Idempotency_Key="abc").status_code == 201


def test_idempotency_keys_expire_after_a_day(owner: Caller) -> None:
    owner.post("sites/", SITE, Idempotency_Key="abc")
    IdempotencyRecord.objects.update(created_at=timezone.now() - dt.timedelta(hours=25))
    assert owner.post("sites/", SITE | {"name": "other"}, Idempotency_Key="abc").status_code == 201
    assert IdempotencyRecord.objects.count() == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x7fb"])
def test_malformed_idempotency_keys_are_rejected(owner: Caller, key: str) -> None:
    assert owner.post("sites/", SITE, Idempotency_Key=key).status_code == 400
    assert not Site.objects.exists()


def test_bulk_request_changes_all_or_none(owner: Caller, people: Cast, sites: list[str]) -> None:
    answer = owner.post("sites/bulk/", {"action": "disable", "sites": ["site-00", "none"]})
    assert answer.status_code == 422 and pointers(answer) == ["/sites/1"]
    assert Site.objects.filter(enabled=False).count() == 0
    assert owner.post("sites/bulk/", {"action": "disable", "sites": ["site-00", "site-01"]}).status_code == 200
    assert Site.objects.filter(enabled=False).count() == 2
    many = [SITE | {"name": "x-1", "blocks": []}, SITE | {"name": "x 2", "blocks": []}]
    assert owner.post("sites/", many).status_code == 422
    assert not Site.objects.filter(name="x-1").exists()
    many[1]["name"] = "x-2"
    assert owner.post("sites/", many).status_code == 201
    assert Site.objects.filter(name__startswith="x-").count() == 2
