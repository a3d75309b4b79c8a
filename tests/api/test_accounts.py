from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from panel.accounts.models import ApiToken, User
from panel.api.models import IdempotencyRecord
from tests.api.caller import Caller, caller_of, pointers
from tests.support.cast import Cast


@pytest.fixture
def session(people: Cast) -> Client:
    """The administrator in a browser, the password given just now."""
    client = Client(raise_request_exception=False)
    client.force_login(people.admin)
    kept = client.session
    kept["sudo_at"] = int(time.time())
    kept.save()
    return client


def post(client: Client, path: str, data: object, **headers: str) -> object:
    return client.post(f"/api/v1/{path}", json.dumps(data), content_type="application/json", headers=headers)


NEW = {"username": "nina", "role": "operator", "teams": ["shop"], "password": "a fairly long secret"}


def test_token_creation_requires_confirmed_session(people: Cast, admin: Caller, session: Client) -> None:
    body = {"name": "ci", "scopes": ["read"], "addresses": ["192.0.2.0/24"]}
    assert admin.post("tokens/", body).status_code == 403
    made = post(session, "tokens/", body)
    assert made.status_code == 201  # type: ignore[attr-defined]
    plain = made.json()["token"]  # type: ignore[attr-defined]
    assert plain.startswith("pdk_")
    listed = session.get("/api/v1/tokens/").content.decode()
    assert plain not in listed and ApiToken.objects.get(name="ci").digest not in listed
    kept = session.session
    kept["sudo_at"] = int(time.time()) - 1000
    kept.save()
    late = post(session, "tokens/", body)
    assert late.status_code == 403 and late.json()["type"].endswith("/confirm/")  # type: ignore[attr-defined]


def test_created_token_is_not_stored_for_idempotent_replay(session: Client) -> None:
    body = {"name": "ci", "scopes": ["read"]}
    first = post(session, "tokens/", body, **{"Idempotency-Key": "k"}).json()  # type: ignore[attr-defined]
    again = post(session, "tokens/", body, **{"Idempotency-Key": "k"}).json()  # type: ignore[attr-defined]
    assert again == first | {"token": None}
    assert first["token"] not in IdempotencyRecord.objects.get().body
    assert ApiToken.objects.filter(name="ci").count() == 1


def test_revoked_token_is_rejected(people: Cast) -> None:
    caller = caller_of(people.owner)
    token = ApiToken.objects.get(prefix=caller.plain[:12])
    other = caller_of(people.outsider)
    assert other.delete(f"tokens/{token.pk}/").status_code == 404
    assert caller.delete(f"tokens/{token.pk}/").status_code == 204
    assert caller.get("me/").status_code == 401


def test_account_changes_require_confirmed_session(people: Cast, admin: Caller, session: Client) -> None:
    assert admin.get("users/").status_code == 200
    assert admin.post("users/", NEW).status_code == 403
    assert admin.patch(f"users/{people.viewer.pk}/", {"role": "admin"}).status_code == 403
    assert admin.delete(f"users/{people.viewer.pk}/").status_code == 403
    made = post(session, "users/", NEW)
    assert made.status_code == 201 and made.json()["teams"] == ["shop"]  # type: ignore[attr-defined]
    assert "password" not in made.json()  # type: ignore[attr-defined]
    weak = post(session, "users/", NEW | {"username": "x", "password": "short"})
    assert weak.status_code == 422 and pointers(weak) == ["/password"]  # type: ignore[attr-defined, arg-type]


def test_users_are_visible_to_administrators_only(owner: Caller, viewer: Caller) -> None:
    for caller in (owner, viewer):
        assert caller.get("users/").status_code == 403
        assert caller.post("users/", NEW).status_code == 403
    assert not User.objects.filter(username="nina").exists()


def test_teams_are_visible_to_members_and_changed_by_administrators(people: Cast, owner: Caller, admin: Caller) -> None:
    assert [row["slug"] for row in owner.get("teams/").json()["results"]] == ["shop"]
    assert owner.get(f"teams/{people.other_team.pk}/").status_code == 404
    assert owner.post("teams/", {"name": "x", "slug": "x"}).status_code == 403
    made = admin.post("teams/", {"name": "Ops", "slug": "ops"})
    assert made.status_code == 201
    path = made["Location"].removeprefix("/api/v1/")
    assert admin.patch(path, {"name": "Operations"}).json()["name"] == "Operations"
    assert admin.put(path, {"name": "Ops", "slug": "ops"}, If_Match=made["ETag"]).status_code == 412
    assert admin.delete(path).status_code == 204


def test_audit_is_read_only_and_filtered(admin: Caller, outsider: Caller) -> None:
    admin.post("teams/", {"name": "Ops", "slug": "ops"})
    rows = admin.get("audit/?action=team.create").json()["results"]
    assert [row["after"]["slug"] for row in rows] == ["ops"]
    assert admin.get("audit/?limit=1&ordering=-at").status_code == 200
    assert outsider.get("audit/?action=team.create").json()["results"] == []
    assert admin.call("POST", "audit/").status_code == 405
    assert admin.call("DELETE", f"audit/{rows[0]['id']}/").status_code == 405


def test_own_profile_can_be_changed_in_session(people: Cast, owner: Caller) -> None:
    assert owner.patch("me/", {"theme": "dark"}).status_code == 403
    browser = Client(raise_request_exception=False)
    browser.force_login(people.owner)

    def patch(data: object) -> Any:
        return browser.patch("/api/v1/me/", json.dumps(data), content_type="application/json")

    changed = patch({"theme": "dark", "timezone": "Europe/Berlin"})
    assert changed.status_code == 200, changed.content
    me = owner.get("me/").json()
    assert (me["theme"], me["timezone"], me["email"]) == ("dark", "Europe/Berlin", people.owner.email)
    for wrong, pointer in (
        ({"timezone": "Mars/Base"}, "/timezone"),
        ({"theme": "x"}, "/theme"),
        ({"role": 1}, "/role"),
    ):
        refused = patch(wrong)
        assert refused.status_code == 422 and pointers(refused) == [pointer]
    assert owner.get("me/").json() == me


def test_administrator_can_turn_off_two_factor_of_user(people: Cast, admin: Caller, session: Client) -> None:
    people.owner.totp_secret, people.owner.totp_confirmed_at = "S" * 32, timezone.now()
    people.owner.save()
    path = f"users/{people.owner.pk}/second-factor-off/"
    assert admin.post(path).status_code == 403
    assert User.objects.get(pk=people.owner.pk).has_second_factor
    done = post(session, path, {})
    assert done.status_code == 200 and done.json()["has_second_factor"] is False  # type: ignore[attr-defined]
    assert not User.objects.get(pk=people.owner.pk).has_second_factor


def test_self_check_is_visible_to_administrators_only(admin: Caller, owner: Caller) -> None:
    assert owner.get("self-check/").status_code == 403
    rows = {row["name"]: row for row in admin.get("self-check/").json()}
    assert rows["Database"]["state"] == "ok" and set(rows["Worker"]) == {"name", "state", "found", "advice"}
