"""Pages and API of comparisons as each of the cast meets them; on paper, no server is asked."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from panel.audit.models import AuditEntry
from panel.benchmarks.models import Run, Scenario
from panel.comparisons import results, services
from panel.comparisons.models import Comparison, Contender, ContenderStatus
from panel.core.jobs import JobStatus
from panel.hosts.models import Engine
from panel.websites.models import Site
from tests.api.caller import Caller, caller_of, pointers
from tests.benchmarks.conftest import deployed, make_site
from tests.benchmarks.finished_runs import finished_run
from tests.support.cast import Cast, cast, signed_in, web_server


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def shop(people: Cast) -> Site:
    site = make_site("shop", people.team, people.nginx, 8080)
    deployed(site)
    return site


@pytest.fixture
def page(shop: Site) -> str:
    return reverse("websites:comparisons", args=["shop"])


def chosen(people: Cast, **values: Any) -> dict[str, Any]:
    return {"web_servers": [people.apache.pk], "load": "quick:ab-keep-alive"} | values


def shown(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


@pytest.fixture
def comparison(people: Cast, shop: Site) -> Comparison:
    """Ended: Apache answered alike and was measured 1.1 times as fast, gallop answered otherwise."""
    native = web_server(people.host, Engine.NATIVE, "")
    load = services.load_chosen(actor=people.owner, site=shop, choice="quick:ab-keep-alive")[0]
    made = services.comparison_create(actor=people.owner, site=shop, web_servers=[people.apache, native], load=load)
    copy = make_site("shop-copy", people.team, people.apache, 8081)
    deployed(copy)
    scenario = Scenario(name="Short", **{key: value for key, value in load.items() if key != "name"})
    scenario.save()
    run = finished_run(people.owner, scenario, [shop, copy])
    made.contenders.exclude(label="gallop").update(status=ContenderStatus.SAME)
    made.contenders.filter(label="gallop").update(status=ContenderStatus.DIFFERENT, detail="It says other things.")
    Comparison.objects.update(
        run=run, status=JobStatus.SUCCEEDED, outcome=JobStatus.SUCCEEDED, finished_at=timezone.now(), phase="clean"
    )
    return Comparison.objects.get()


# --- a site's page ---


def test_operator_starts_comparison_and_is_redirected_to_it(people: Cast, page: str) -> None:
    client = signed_in(people.owner)
    assert "Start the comparison" in shown(client, page)
    answer = client.post(page, chosen(people))
    comparison = Comparison.objects.get()
    assert answer["Location"] == reverse("comparisons:detail", args=[comparison.uuid])
    assert [row.label for row in comparison.contenders.all()] == ["nginx", "Apache httpd"]
    assert "Waiting for a free worker" in shown(client, answer["Location"])
    assert "A server comparison of this site is running." in shown(client, page)
    assert AuditEntry.objects.get(action="comparison.create").after["servers"] == ["nginx", "Apache httpd"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"web_servers": []}, "Choose at least one other web server"),
        ({"web_servers": [999]}, "“999” is not available"),
        ({"load": "replay"}, "“replay” is not available"),  # the site writes no log of its own
        ({"load": "scenario:1"}, "“scenario:1” is not available"),
    ],
)
def test_comparison_form_shows_errors(people: Cast, page: str, changes: dict[str, Any], words: str) -> None:
    answer = signed_in(people.owner).post(page, chosen(people, **changes))
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Comparison.objects.exists()


def test_viewers_see_comparisons_but_cannot_start_them(people: Cast, page: str, comparison: Comparison) -> None:
    client = signed_in(people.viewer)
    assert "An operator of the site" in shown(client, page)
    assert client.post(page, chosen(people)).status_code == 403
    result = shown(client, reverse("comparisons:detail", args=[comparison.uuid]))
    assert "1.10×" in result and "Move to Apache httpd" not in result
    assert client.post(reverse("comparisons:switch", args=[comparison.uuid, 1])).status_code == 403
    assert client.post(reverse("comparisons:delete", args=[comparison.uuid])).status_code == 403
    comparison.refresh_from_db()
    assert comparison.switch is None


def test_comparison_is_hidden_from_other_teams(people: Cast, page: str, comparison: Comparison) -> None:
    client = signed_in(people.outsider)
    for url in (
        page,
        *(reverse(f"comparisons:{name}", args=[comparison.uuid]) for name in ("detail", "delete")),
        reverse("job-live", args=[comparison.uuid]),
    ):
        assert client.get(url).status_code == 404, url
    assert client.post(reverse("comparisons:switch-plan", args=[comparison.uuid, 1])).status_code == 404


def test_comparison_form_names_next_action_without_web_servers(people: Cast, page: str) -> None:
    client = signed_in(people.owner)
    people.apache.delete()
    assert "The host has only one web server" in shown(client, page)
    make_site("draft", people.team, people.nginx, 8090)
    assert "Not deployed yet" in shown(client, reverse("websites:comparisons", args=["draft"]))


# --- the result ---


def test_comparison_result_shows_each_web_server_and_exclusion_reasons(people: Cast, comparison: Comparison) -> None:
    text = shown(signed_in(people.owner), reverse("comparisons:detail", args=[comparison.uuid]))
    assert "Move to Apache httpd" in text and "Use nginx" not in text and "Use gallop" not in text
    assert "It says other things." in text
    assert "Apache httpd handled 1.10× as many requests as nginx" in text


def test_comparison_without_difference_says_so(comparison: Comparison) -> None:
    assert comparison.run is not None
    figure = comparison.run.summary["ratios"][0]["figures"]["throughput_rps"]
    figure |= {"value": 1.02, "low": 0.97, "high": 1.08, "verdict": "no_difference"}
    assert "significantly faster than" in results.advice(comparison)
    (apache,) = [row for row in results.rows(comparison) if row.contender.label == "Apache httpd"]
    assert apache.cells[0].ratio == "no significant difference (0.97× to 1.08×)"


def test_comparison_with_invalid_figures_gives_no_advice(comparison: Comparison) -> None:
    assert comparison.run is not None
    comparison.run.status = "invalid"
    assert results.advice(comparison) == ""
    assert results.gain(comparison) == []


def test_comparison_event_stream_reports_end(people: Cast, comparison: Comparison) -> None:
    client = AsyncClient()
    client.force_login(people.owner)

    async def heard() -> list[bytes]:
        answer = await client.get(reverse("job-events", args=[comparison.uuid]))
        return [part async for part in answer.streaming_content]  # type: ignore[attr-defined]

    assert "event: done\ndata: succeeded" in b"".join(async_to_sync(heard)()).decode()


def test_comparison_is_deleted_with_its_run(people: Cast, comparison: Comparison) -> None:
    client = signed_in(people.owner)
    url = reverse("comparisons:delete", args=[comparison.uuid])
    assert "Delete comparison" in shown(client, url)
    assert client.post(url)["Location"] == reverse("websites:comparisons", args=["shop"])
    assert not Comparison.objects.exists() and not Contender.objects.exists()
    assert not Run.objects.exists()


# --- the API ---


@pytest.fixture
def owner(people: Cast, shop: Site) -> Caller:
    return caller_of(people.owner)


def test_api_starts_follows_and_cancels_comparison(people: Cast, owner: Caller) -> None:
    asked = {"site": "shop", "load": "quick:ab-keep-alive"}
    tried = owner.post("comparisons/?dry_run=true", asked)
    assert tried.status_code == 200 and not Comparison.objects.exists()
    answer = owner.post("comparisons/", asked)
    assert answer.status_code == 202, answer.content
    body = json.loads(answer.content)
    assert [server["label"] for server in body["servers"]] == ["nginx", "Apache httpd"]
    uuid = UUID(body["uuid"])
    job = owner.get(f"jobs/{uuid}/").json()  # type: ignore[attr-defined]
    assert (answer["Location"], job["type"], job["is_finished"]) == (f"/api/v1/jobs/{uuid}/", "comparison", False)
    assert [step["status"] for step in job["steps"]] == ["queued"] * 5
    assert owner.post("comparisons/", asked).status_code == 409
    assert owner.delete(f"comparisons/{uuid}/").status_code == 409
    assert owner.post(f"jobs/{uuid}/cancel/").status_code < 300
    assert owner.get(f"comparisons/{uuid}/").json()["status"] == "cancelled"  # type: ignore[attr-defined]
    job = owner.get(f"jobs/{uuid}/").json()  # type: ignore[attr-defined]
    assert [step["status"] for step in job["steps"]] == ["skipped"] * 5
    assert owner.post(f"comparisons/{uuid}/cancel/").status_code == 409
    assert owner.delete(f"comparisons/{uuid}/").status_code == 204


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"site": "none"}, "/site"),
        ({"web_servers": [999]}, "/web_servers/0"),
        ({"load": "everything"}, "/load"),
        ({"load": "scenario:1"}, "/load"),
        ({"load": "replay"}, "/load"),
        ({"rounds": 2}, "/rounds"),
        ({"target": "192.0.2.1:80"}, "/target"),
    ],
)
def test_comparison_rejects_other_targets(owner: Caller, changes: dict[str, Any], pointer: str) -> None:
    answer = owner.post("comparisons/", {"site": "shop", "load": "quick:ab-keep-alive"} | changes)
    assert answer.status_code == 422, answer.content
    assert pointers(answer) == [pointer]
    assert not Comparison.objects.exists()


def test_comparison_requires_every_scope_it_uses(people: Cast, shop: Site) -> None:
    asked = {"site": "shop", "load": "quick:ab-keep-alive"}
    for scopes in (["read"], ["benchmark"], ["benchmark", "sites"], ["benchmark", "deploy"]):
        assert caller_of(people.owner, scopes).post("comparisons/", asked).status_code == 403, scopes
    assert not Comparison.objects.exists()


def test_switch_to_web_server_with_different_responses_is_rejected(owner: Caller, comparison: Comparison) -> None:
    answer = owner.post(f"comparisons/{comparison.uuid}/switch/", {"position": 2, "confirm": True})
    assert answer.status_code == 422 and pointers(answer) == ["/position"]
    assert "where its copy has different responses: It says other things." in answer.content.decode()
    contender = comparison.contenders.get(position=2)
    for status, detail, words in (
        (ContenderStatus.REFUSED, "No space left.", "where the deployment of its copy failed: No space left."),
        (ContenderStatus.WAITING, "", "which was not compared."),
    ):
        contender.status, contender.detail = status, detail
        contender.save()
        answer = owner.post(f"comparisons/{comparison.uuid}/switch/", {"position": 2, "confirm": True})
        assert answer.status_code == 422
        assert f"The site cannot move to {contender.label}, {words}" in answer.content.decode()
    assert owner.post(f"comparisons/{comparison.uuid}/switch/", {"position": 9}).status_code == 422
    listed = owner.get("comparisons/?site__name=shop").json()["results"]  # type: ignore[attr-defined]
    assert listed[0]["servers"][1]["ratios"]["throughput_rps"]["verdict"] == "higher"
