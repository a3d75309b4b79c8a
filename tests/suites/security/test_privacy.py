"""What users can learn about others: team names, accounts, cached pages and open streams."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.sessions.models import Session
from django.test import AsyncClient, Client

from panel.accounts.models import ApiToken, User
from panel.accounts.services.tokens import token_create
from panel.accounts.services.users import user_update
from panel.audit.models import AuditEntry
from panel.deployments.models import Deployment
from panel.deployments.planning import services
from tests.api.caller import Caller, caller_of
from tests.deployments.sample_plans import planned, shop
from tests.support.cast import Cast, cast, signed_in

SECRET = {"name": "secretname", "domains": ["secret.example"]}
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def people(db: None) -> Cast:
    found = cast()
    found.host.status = "unreachable"
    found.host.save()
    return found


@pytest.fixture
def shared(people: Cast) -> Deployment:
    """Of a site of each team, planned by an administrator."""
    mine, theirs = shop(people), shop(people, **SECRET, actor=people.outsider, team=people.other_team)
    (deployment,) = services.deployment_plan(actor=people.admin, sites=[mine, theirs])
    return deployment


def test_lists_show_own_sites_only(people: Cast, shared: Deployment) -> None:
    owner = signed_in(people.owner)
    for address in ("/", "/deployments/", "/deployments/?q=shop", "/audit/"):
        page = owner.get(address).content.decode()
        assert "secretname" not in page, address
        assert "shop" in page, address
    assert "secretname" in signed_in(people.admin).get("/deployments/").content.decode()


def test_search_for_sites_of_other_teams_finds_nothing(people: Cast, shared: Deployment) -> None:
    assert (
        "web-1" not in signed_in(people.owner).get("/deployments/?q=secretname").content.decode().split('id="list"')[1]
    )
    caller = caller_of(people.owner)
    assert caller.get("deployments/?items__site__name=secretname").json()["results"] == []
    assert caller.get("deployments/?items__site__name__in=secretname").json()["results"] == []
    assert len(caller.get("deployments/?items__site__name=shop").json()["results"]) == 1


def test_audit_of_shared_jobs_requires_access_to_all_sites(people: Cast, shared: Deployment) -> None:
    entry = AuditEntry.objects.get(object_type="deployments.deployment", object_id=str(shared.pk))
    assert "secretname" in json.dumps(entry.after)
    assert signed_in(people.owner).get(f"/audit/{entry.pk}/").status_code == 404
    assert "secretname" not in caller_of(people.owner).get("audit/").content.decode()
    assert signed_in(people.admin).get(f"/audit/{entry.pk}/").status_code == 200
    own = planned(people, shop(people, name="second", domains=["second.example"]))
    entry = AuditEntry.objects.get(object_type="deployments.deployment", object_id=str(own.pk))
    assert signed_in(people.viewer).get(f"/audit/{entry.pk}/").status_code == 200


@pytest.mark.parametrize("role", ["viewer", "owner"])
def test_new_team_form_reveals_no_user_names(people: Cast, role: str) -> None:
    def said(client: Any, name: str) -> tuple[int, str]:
        sent = {"name": "x", "slug": "x", "members": [name]}
        answer = client.post("/api/v1/teams/", json.dumps(sent), content_type="application/json")
        body = answer.json()
        body.pop("request_id")
        return answer.status_code, json.dumps(body)

    for client in (signed_in(getattr(people, role)), caller_of(getattr(people, role)).client):
        assert said(client, people.admin.username) == said(client, "nobody")
        assert said(client, "nobody")[0] == 403


def test_another_team_returns_same_response_as_missing_team(people: Cast) -> None:
    def said(team: str) -> tuple[int, str]:
        answer = caller_of(people.owner).post("sites/", {"name": "x", "team": team, "blocks": []})
        return answer.status_code, answer.json()["detail"].replace(team, "TEAM")

    assert said(people.other_team.slug) == said("no-such-team")
    assert said("no-such-team")[0] == 422


def test_token_cannot_revoke_more_powerful_token(people: Cast) -> None:
    strong, _plain = token_create(actor=people.admin, name="strong", scopes=["admin"])
    equal, _plain = token_create(actor=people.admin, name="equal", scopes=["sites"])
    reader, writer = caller_of(people.admin, ["read"]), caller_of(people.admin, ["read", "sites"])
    assert reader.delete(f"tokens/{equal.pk}/").status_code == 403, "a token of scope read changes nothing"
    refused = writer.delete(f"tokens/{strong.pk}/")
    assert refused.status_code == 403 and "a token with more permissions (admin)" in refused.json()["detail"]
    assert writer.delete(f"tokens/{equal.pk}/").status_code == 204
    assert caller_of(people.admin, ["admin"]).delete(f"tokens/{strong.pk}/").status_code == 204
    mixed, _plain = token_create(actor=people.admin, name="mixed", scopes=["read", "deploy"])
    assert caller_of(people.admin, ["read", "sites"]).delete(f"tokens/{mixed.pk}/").status_code == 403
    assert signed_in(people.admin).post(f"/account/tokens/{mixed.pk}/revoke/").status_code == 302
    assert ApiToken.objects.get(pk=mixed.pk).revoked_at


def test_responses_forbid_storage_by_caches(people: Cast) -> None:
    browser, caller = signed_in(people.admin), caller_of(people.admin)
    answers = [
        *(browser.get(address) for address in ("/", "/sites/", "/hosts/", "/deployments/", "/audit/", "/account/")),
        *(
            browser.get(address)
            for address in ("/settings/users/", "/audit/export/", "/nothing-here/", "/api/v1/sites/")
        ),
        *(Caller.get(caller, path) for path in ("me/", "sites/", "hosts/web-1/", "sites/none/", "tokens/")),
        *(Client().get(address) for address in ("/login/", "/sites/", "/api/v1/me/")),
    ]
    for answer in answers:
        assert "no-store" in answer["Cache-Control"], answer.request["PATH_INFO"]


def end_session(user: User, admin: User) -> None:
    Session.objects.all().delete()


def deactivate(user: User, admin: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def leave_team(user: User, admin: User) -> None:
    user_update(actor=admin, user=user, teams=[])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/jobs/{}/events/", "/api/v1/jobs/{}/events/"])
@pytest.mark.parametrize("change", [end_session, deactivate, leave_team])
def test_event_stream_ends_after_loss_of_permission(transactional_db: None, path: str, change: Any) -> None:
    people = cast()
    people.host.status = "unreachable"
    people.host.save()
    deployment = planned(people, shop(people))

    async def read() -> float:
        client = AsyncClient()
        await client.aforce_login(people.viewer)
        answer = await client.get(path.format(deployment.uuid))
        assert answer.status_code == 200
        parts = aiter(answer.streaming_content)  # type: ignore[attr-defined]
        await anext(parts)
        await sync_to_async(change)(people.viewer, people.admin)
        began = time.monotonic()
        async with asyncio.timeout(30):
            async for _part in parts:
                pass
        return time.monotonic() - began

    assert async_to_sync(read)() < 8


def hsts(**values: str) -> str:
    """The header of the panel's settings with these variables, or why they are refused."""
    code = (
        "import django; django.setup()\n"
        "from django.test import Client\n"
        "print(Client().get('/healthz', secure=True).headers.get('Strict-Transport-Security'))"
    )
    env = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "panel.settings",
        "PADDOCK_HOME": os.environ["PADDOCK_HOME"],
        "PADDOCK_ALLOWED_HOSTS": "testserver",
        "PADDOCK_HTTPS": "1",
        "PADDOCK_STATIC_MANIFEST": "0",
        **values,
    }
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_hsts_covers_subdomains_only_on_request() -> None:
    assert hsts() == "max-age=31536000"
    assert hsts(PADDOCK_HSTS_SUBDOMAINS="1") == "max-age=31536000; includeSubDomains"
    assert hsts(PADDOCK_HSTS_SECONDS="0") == "None"
    assert hsts(PADDOCK_HSTS_SUBDOMAINS="1", PADDOCK_HSTS_PRELOAD="1") == "max-age=31536000; includeSubDomains; preload"
    assert "needs PADDOCK_HSTS_SUBDOMAINS" in hsts(PADDOCK_HSTS_PRELOAD="1")
