"""Deployments over the API, to a real nginx through the real agent."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync

from panel.accounts.models import ApiToken
from panel.api import stream
from panel.core.claims import Attempt
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment
from panel.hosts.models import Engine
from panel.websites.models import Site
from tests.api.caller import Caller, caller_of, pointers
from tests.deployments.conftest import agent_home, machine, nginx  # noqa: F401 - fixtures
from tests.deployments.real_host import Machine
from tests.support.nginx import NginxInstance


@pytest.fixture
def site(machine: Machine, nginx: NginxInstance) -> Site:  # noqa: F811
    return machine.site("shop", machine.web_server(nginx, Engine.NGINX))


@pytest.fixture
def caller(machine: Machine) -> Caller:  # noqa: F811
    return caller_of(machine.people.owner)


def plan(caller: Caller, **values: object) -> str:
    answer = caller.post("deployments/", {"sites": ["shop"], **values})
    assert answer.status_code == 201, answer.content
    (row,) = answer.json()["deployments"]
    return str(row["uuid"])


def carry_out(uuid: str) -> None:
    assert execution.deployment_execute(Deployment.objects.get(uuid=uuid).uuid) == Attempt.DONE


def collect(caller: Caller, uuid: str) -> list[tuple[str, object]]:
    """The whole stream of a job that has ended."""
    token = ApiToken.objects.select_related("user").get(prefix=caller.plain[:12])
    token.user.scopes = frozenset(token.scopes)
    job = Deployment.objects.get(uuid=uuid).uuid

    async def read() -> list[str]:
        return [part async for part in stream.events(token.user, token, "127.0.0.1", job)]

    found = []
    for part in async_to_sync(read)():
        name, data = part.strip().split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_deployment_is_planned_confirmed_followed_and_rolled_back(caller: Caller, machine: Machine, site: Site) -> None:  # noqa: F811
    first = plan(caller)
    detail = caller.get(f"deployments/{first}/").json()
    assert detail["status"] == "planned" and any(file["diff"] for file in detail["plan"]["files"])
    confirmed = caller.post(f"deployments/{first}/confirm/")
    assert confirmed.status_code == 202 and confirmed["Location"] == f"/api/v1/jobs/{first}/"
    carry_out(first)
    assert machine.answers("shop", "this is shop")
    job = caller.get(f"jobs/{first}/").json()
    assert (job["type"], job["status"], job["is_finished"]) == ("deployment", "succeeded", True)
    assert {step["status"] for step in job["steps"]} == {"succeeded"} and "test" in job["log"]
    assert [step["name"] for step in caller.get(f"deployments/{first}/steps/").json()] == [
        step["name"] for step in job["steps"]
    ]
    events = collect(caller, first)
    assert [name for name, _ in events][-2:] == ["job", "end"] and events[0][0] == "step"
    assert caller.post(f"deployments/{first}/confirm/").status_code == 409
    assert caller.post(f"jobs/{first}/cancel/").status_code == 409

    block = site.blocks.get()
    caller.patch(f"blocks/{block.pk}/", {"root": str(machine.files("second", "this is new"))})
    second = caller.post("deployments/", {"sites": ["shop"], "confirm": True})
    assert second.status_code == 202
    carry_out(second.json()["deployments"][0]["uuid"])
    assert machine.answers("shop", "this is new")
    back = caller.post("sites/shop/rollback/", {"revision": 1})
    assert back.status_code == 201
    uuid = back.json()["deployments"][0]["uuid"]
    assert caller.post(f"deployments/{uuid}/confirm/").status_code == 202
    carry_out(uuid)
    assert machine.answers("shop", "this is shop")
    revisions = caller.get("sites/shop/revisions/").json()
    assert [row["number"] for row in revisions] == [2, 1]
    files = caller.get(f"revisions/{revisions[1]['id']}/files/").json()
    assert any("shop.example" in (file["content"] or "") for file in files)
    assert caller.get(f"revisions/{revisions[1]['id']}/files/?path=/etc/passwd").status_code == 400


def test_dry_run_plan_leaves_no_rows(caller: Caller, site: Site) -> None:
    answer = caller.post("deployments/?dry_run=true", {"sites": ["shop"]})
    assert answer.status_code == 200 and answer.json()["deployments"][0]["plan"]["files"]
    assert not Deployment.objects.exists()
    uuid = plan(caller)
    tried = caller.post(f"deployments/{uuid}/confirm/?dry_run=true")
    assert tried.status_code == 200
    assert Deployment.objects.get().status == "planned"


@pytest.mark.parametrize("sites", [["shop", "none"], ["none"], [], "shop", None, ["shop", 1]])
def test_plan_with_unknown_target_touches_no_host(caller: Caller, site: Site, sites: object) -> None:
    answer = caller.post("deployments/", {"sites": sites, "confirm": True})
    assert answer.status_code == 422 and pointers(answer)[0].startswith("/sites")
    assert not Deployment.objects.exists()


def test_stale_plan_is_rejected(caller: Caller, site: Site) -> None:
    uuid = plan(caller)
    caller.patch(f"blocks/{site.blocks.get().pk}/", {"autoindex": True})
    answer = caller.post(f"deployments/{uuid}/confirm/")
    assert answer.status_code == 409 and "outdated" in answer.json()["detail"]
    assert caller.post(f"deployments/{uuid}/cancel/").json()["status"] == "cancelled"


def test_deployments_are_hidden_from_other_teams(machine: Machine, caller: Caller, site: Site) -> None:  # noqa: F811
    uuid = plan(caller)
    outsider, viewer = caller_of(machine.people.outsider), caller_of(machine.people.viewer)
    for path in (f"deployments/{uuid}/", f"deployments/{uuid}/steps/", f"jobs/{uuid}/", f"jobs/{uuid}/events/"):
        assert outsider.get(path).status_code == 404, path
        assert viewer.get(path).status_code == 200, path
    assert outsider.post(f"deployments/{uuid}/confirm/").status_code == 404
    assert viewer.post(f"deployments/{uuid}/confirm/").status_code == 403
    assert caller_of(machine.people.owner, ["sites"]).post(f"deployments/{uuid}/confirm/").status_code == 403
    assert Deployment.objects.get().status == "planned"


def test_event_stream_ends_when_token_is_revoked(machine: Machine, caller: Caller, site: Site) -> None:  # noqa: F811
    uuid = plan(caller)
    ApiToken.objects.filter(prefix=caller.plain[:12]).update(revoked_at="2020-01-01T00:00:00Z")
    assert collect(caller, uuid) == []


def test_event_streams_reject_cross_origin_pages(machine: Machine, caller: Caller, site: Site) -> None:  # noqa: F811
    from django.test import Client

    uuid = plan(caller)
    client = Client(raise_request_exception=False)
    client.force_login(machine.people.owner)
    path = f"/api/v1/jobs/{uuid}/events/"
    assert client.get(path, headers={"Origin": "https://evil.example"}).status_code == 403
    assert client.get(path, headers={"Origin": "null"}).status_code == 403
    assert client.get(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    good = client.get(path, headers={"Origin": "http://testserver", "Accept": "text/event-stream"})
    assert good.status_code == 200 and good["Content-Type"] == "text/event-stream"


def test_preview_shows_draft_without_secrets(machine: Machine, caller: Caller, site: Site) -> None:  # noqa: F811
    files = caller.get("sites/shop/preview/").json()
    assert any("shop.example" in (file["content"] or "") for file in files)
    assert caller.get("sites/shop/differences/").json() == [], "nginx says all of it"
    assert caller.get("sites/shop/preview/?web_server=999").status_code == 400
    assert caller.get("sites/shop/preview/?web_server=x").status_code == 400


def test_unknown_job_returns_404(caller: Caller) -> None:
    assert caller.get(f"jobs/{uuid4()}/").status_code == 404
    assert caller.post(f"jobs/{uuid4()}/cancel/").status_code == 404
    assert caller.get("jobs/1/").status_code == 404


def test_explain_endpoint_names_matching_location(machine: Machine, caller: Caller, site: Site) -> None:  # noqa: F811
    url = f"http://shop.example:{machine.port}/a/b"
    found = caller.get(f"sites/shop/explain/?url={url}").json()
    assert found["site"] == "shop" and found["block"] == "/blocks/0"
    assert [step["name"] for step in found["steps"]][:2] == ["listener", "server"]
    assert found["outcome"]["kind"] == "files"
    assert pointers(caller.get("sites/shop/explain/")) == ["?url"]
    assert pointers(caller.get("sites/shop/explain/?url=nonsense")) == ["?url"]
