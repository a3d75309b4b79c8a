"""The benchmark pages as each role sees them."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from django.urls import reverse

from panel.accounts.models import Team, User
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Run, RunStatus, Scenario
from panel.benchmarks.runs.services import run_create
from panel.benchmarks.scenarios.ready_made import QUICK
from panel.hosts.models import Host, WebServer
from panel.reports import building
from panel.websites.models import Site
from panel.websites.services import site_update
from tests.benchmarks.conftest import deployed, make_site
from tests.benchmarks.finished_runs import finished_run
from tests.support.cast import signed_in

pytestmark = pytest.mark.django_db


def text(client: Client, url: str, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status, response.content[:2000]
    return response.content.decode()


@pytest.fixture
def second(team: Team, web_server: WebServer) -> Site:
    site = make_site("second", team, web_server, 8081)
    deployed(site)
    return site


@pytest.fixture
def run(operator: User, scenario: Scenario, site: Site, second: Site) -> Run:
    return finished_run(operator, scenario, [site, second])


def test_result_page_names_round_with_hanging_requests(operator: User, run: Run) -> None:
    hung = "Some requests hung: the longest took 8.1 s, the average 120 ms."
    row = run.targets.get(position=1).rounds.get(number=2)
    row.metrics["remarks"] = [hung]
    row.save()
    said = f"{row.target.label}, round 2: {hung}"
    assert said in html.unescape(text(signed_in(operator), reverse("benchmarks:detail", args=[run.uuid])))
    assert said in building.run_document(run, []).sections[0].remarks


# --- empty pages name the next action ---


def test_empty_scenario_list_offers_ready_made_scenarios(operator: User) -> None:
    page = text(signed_in(operator), reverse("benchmarks:list"))
    assert QUICK[0].name in page
    assert "Use this scenario" in page


def test_empty_scenario_list_tells_viewer_whom_to_ask(viewer: User) -> None:
    page = text(signed_in(viewer), reverse("benchmarks:list"))
    assert "An operator of your team" in page
    assert "Use this scenario" not in page


def test_run_form_links_to_sites_when_none_is_deployed(operator: User, scenario: Scenario) -> None:
    assert "No sites deployed yet" in text(signed_in(operator), reverse("benchmarks:run-create"))


@pytest.mark.parametrize("quick", [quick.slug for quick in QUICK])
def test_ready_made_scenario_is_copied_and_redirects_to_sites(operator: User, quick: str) -> None:
    response = signed_in(operator).post(reverse("benchmarks:quick"), {"quick": quick})
    scenario = Scenario.objects.get()
    assert response["Location"] == f"{reverse('benchmarks:run-create')}?scenario={scenario.pk}"


def test_unknown_ready_made_scenario_returns_404(operator: User) -> None:
    assert signed_in(operator).post(reverse("benchmarks:quick"), {"quick": "x"}).status_code == 404
    assert not Scenario.objects.exists()


# --- scenarios ---

FORM = {
    "name": "Mine",
    "paths": "/\n/b",
    "rounds": "3",
    "warmup_s": "2",
    "timeout_s": "60",
    "allowed_error_percent": "0",
    "argument_duration_s": "5",
    "argument_concurrency": "8",
    "argument_threads": "2",
    "argument_keepalive": "on",
}


def test_scenario_is_created(operator: User) -> None:
    response = signed_in(operator).post(reverse("benchmarks:scenario-create", args=["wrk"]), FORM)
    assert response.status_code == 302, response.content.decode()
    scenario = Scenario.objects.get()
    assert scenario.paths == ["/", "/b"]
    assert scenario.arguments["concurrency"] == 8
    assert scenario.arguments["keepalive"] is True
    assert scenario.arguments["tls"] is False


@pytest.mark.parametrize("tool", Tool.values)
def test_scenario_form_differs_by_tool(operator: User, tool: str) -> None:
    page = text(signed_in(operator), reverse("benchmarks:scenario-create", args=[tool]))
    assert "argument_concurrency" in page
    assert ("argument_requests" in page) is (tool != "wrk")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("argument_concurrency", "-n 5", "Enter a whole number from"),
        ("argument_concurrency", "0", "1 to 10000"),
        ("argument_threads", "9", "at most 8 threads"),
        ("argument_duration_s", "", ""),
        ("paths", "/a\nhttp://192.0.2.1/", "start the path with /"),
        ("paths", "/$(id)", "percent-encode all"),
        ("rounds", "0", "from 1 to 100"),
        ("timeout_s", "6", "time limit of at least 10 s"),
    ],
)
def test_scenario_errors_appear_at_their_field(operator: User, name: str, value: str, words: str) -> None:
    client, url = signed_in(operator), reverse("benchmarks:scenario-create", args=["wrk"])
    form = FORM | {name: value}
    if name == "argument_duration_s":
        assert client.post(url, form).status_code == 302, "left out, it has its default"
        return
    response = client.post(url, form)
    assert response.status_code == 422
    assert words in response.context["form"].errors[name][0]
    assert not Scenario.objects.exists()
    inline = client.post(reverse("benchmarks:scenario-check", args=["wrk"]), form | {"_field": name})
    assert words in inline.content.decode().replace("&#x27;", "'")


def test_scenario_name_is_unique(operator: User, scenario: Scenario) -> None:
    response = signed_in(operator).post(reverse("benchmarks:scenario-create", args=["wrk"]), FORM | {"name": "Quick"})
    assert "scenario with this name already exists" in response.context["form"].errors["name"][0]


def test_scenario_is_changed_and_stale_form_is_rejected(operator: User, scenario: Scenario) -> None:
    client, url = signed_in(operator), reverse("benchmarks:scenario-edit", args=[scenario.pk])
    form = {key: value for key, value in FORM.items() if key != "argument_threads"} | {"paths": "/b", "version": "1"}
    assert client.post(url, form).status_code == 302
    scenario.refresh_from_db()
    assert (scenario.paths, scenario.row_version) == (["/b"], 2)
    response = client.post(url, form | {"paths": "/c"})
    assert response.status_code == 422
    assert "changed by another user" in response.content.decode()


def test_deleting_scenario_keeps_its_runs(operator: User, scenario: Scenario, run: Run) -> None:
    client, url = signed_in(operator), reverse("benchmarks:scenario-delete", args=[scenario.pk])
    assert "Paddock keeps the runs" in text(client, url)
    assert Scenario.objects.exists(), "GET changes nothing"
    client.post(url)
    run.refresh_from_db()
    assert run.scenario is None
    assert run.parameters["name"] == "Quick"
    text(client, reverse("benchmarks:detail", args=[run.uuid]))


def test_scenario_page_shows_history(operator: User, scenario: Scenario, run: Run) -> None:
    page = text(signed_in(operator), reverse("benchmarks:scenario", args=[scenario.pk]))
    assert 'class="chart-svg"' in page
    assert "Throughput over time" in page
    assert signed_in(operator).get(reverse("benchmarks:scenario", args=[scenario.pk]) + "?figure=x").status_code == 404


# --- runs ---


def test_run_starts_with_selected_baseline_first(operator: User, scenario: Scenario, site: Site, second: Site) -> None:
    form = {"scenario": scenario.pk, "sites": [site.name, second.name], "baseline": second.name}
    response = signed_in(operator).post(reverse("benchmarks:run-create"), form)
    started = Run.objects.get()
    assert response["Location"] == reverse("benchmarks:detail", args=[started.uuid])
    assert [target.site for target in started.targets.all()] == [second, site]


def test_run_form_offers_few_sites_and_search(
    operator: User, scenario: Scenario, team: Team, web_server: WebServer
) -> None:
    for number in range(45):
        deployed(make_site(f"shop-{number:02}", team, web_server, 8100 + number))
    client, url = signed_in(operator), reverse("benchmarks:run-create")
    page = text(client, url)
    assert page.count('type="checkbox" name="sites"') == 30
    assert "15 more sites are not listed. Use the search above to find these sites." in page
    found = text(client, f"{url}?q=shop-44&sites=shop-03")
    assert re.findall(r'name="sites" value="([^"]+)"', found) == ["shop-03", "shop-44"]
    assert re.search(r'value="shop-03"[^>]*checked', found), "what is chosen stays chosen"
    client.post(url, {"scenario": scenario.pk, "sites": ["shop-44"]})
    assert Run.objects.get().targets.get().site == Site.objects.get(name="shop-44")


def test_baseline_must_be_one_of_the_sites(operator: User, scenario: Scenario, site: Site, second: Site) -> None:
    form = {"scenario": scenario.pk, "sites": [site.name], "baseline": second.name}
    response = signed_in(operator).post(reverse("benchmarks:run-create"), form)
    assert response.status_code == 422
    assert not Run.objects.exists()


def test_running_run_shows_progress_and_can_be_cancelled(operator: User, scenario: Scenario, site: Site) -> None:
    queued = run_create(actor=operator, scenario=scenario, sites=[site])
    client, url = signed_in(operator), reverse("benchmarks:detail", args=[queued.uuid])
    page = text(client, url)
    assert f'data-events="{reverse("job-events", args=[queued.uuid])}"' in page
    assert "Waiting for a free worker" in page
    assert "Waiting for a free worker" in text(client, reverse("job-live", args=[queued.uuid]))
    client.post(reverse("benchmarks:cancel", args=[queued.uuid]))
    queued.refresh_from_db()
    assert queued.status == RunStatus.CANCELLED
    client.post(reverse("benchmarks:cancel", args=[queued.uuid]))
    assert "already ended" in text(client, url)


def test_result_page_shows_figures_charts_tables_and_method(operator: User, run: Run) -> None:
    page = text(signed_in(operator), reverse("benchmarks:detail", args=[run.uuid]))
    for words in ("Summary", "Throughput", "Latency by percentile", "CPU over time", "Memory over time"):
        assert words in page
    assert page.count('class="chart-svg"') == page.count("<figure") == page.count("<summary>Table:") >= 5
    assert "×</strong> the throughput of paper" in page
    assert "75 % confidence" in page
    assert "closed loop" in page


def test_result_page_meets_content_security_policy(operator: User, run: Run) -> None:
    page = text(signed_in(operator), reverse("benchmarks:detail", args=[run.uuid]))
    assert not re.search(r"<style\b|\sstyle=|\son[a-z]+=", page)
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    idents = re.findall(r'\bid="([^"]+)"', page)
    assert len(idents) == len(set(idents))


def test_result_page_shows_reasons_and_failures(operator: User, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(status=RunStatus.INVALID, reasons=["paper: too <b>slow</b>"])
    page = text(signed_in(operator), reverse("benchmarks:detail", args=[run.uuid]))
    assert "These figures are not reliable" in page
    assert "too &lt;b&gt;slow" in page


def test_raw_output_is_served_as_plain_text(operator: User, run: Run) -> None:
    response = signed_in(operator).get(reverse("benchmarks:output", args=[run.uuid, 0, 1]))
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert "This is ApacheBench" in response.content.decode()


def test_json_export_contains_everything(operator: User, run: Run) -> None:
    response = signed_in(operator).get(reverse("benchmarks:export-json", args=[run.uuid]))
    data = json.loads(response.content)
    assert data["uuid"] == str(run.uuid)
    assert len(data["rounds"]) == 6
    assert data["rounds"][0]["samples"]["server"]
    assert "ApacheBench" in data["rounds"][0]["output"]
    assert data["parameters"] == run.parameters


def test_csv_export_has_one_row_per_round(operator: User, run: Run) -> None:
    response = signed_in(operator).get(reverse("benchmarks:export-csv", args=[run.uuid]))
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    assert [(row["target"], row["round"]) for row in rows][:2] == [
        ("paper (nginx, here)", "1"),
        ("second (nginx, here)", "1"),
    ]
    assert float(rows[0]["throughput_rps (requests/s)"]) > 1000
    assert rows[0]["latency_p99_9 (ms)"] == ""


def test_comparison_page_shows_runs(operator: User, scenario: Scenario, site: Site, run: Run) -> None:
    other = finished_run(operator, scenario, [site])
    Run.objects.filter(pk=other.pk).update(parameters=other.parameters | {"rounds": 5}, finished_at=run.finished_at)
    page = text(signed_in(operator), f"{reverse('benchmarks:compare')}?run={run.uuid}&run={other.uuid}")
    assert "rounds is 5, not 3" in page
    assert 'class="chart-svg"' in page
    assert "(1)" in page and "(2)" in page, "runs of the same minute are told apart"


@pytest.mark.parametrize("query", ["", "?run=x", "?run=7c9e6679-7425-40de-944b-e07fc1f90ae7"])
def test_comparison_page_explains_incomparable_runs(operator: User, query: str) -> None:
    response = signed_in(operator).get(reverse("benchmarks:compare") + query)
    assert response.status_code == (404 if query == "?run=x" else 302)


def test_run_list_is_searched_and_filtered(operator: User, run: Run) -> None:
    client, url = signed_in(operator), reverse("benchmarks:list")
    assert run.title in text(client, f"{url}?q=quick&status=finished")
    assert "No run matches the filters" in text(client, f"{url}?q=nothing")
    assert "No run matches the filters" in text(client, f"{url}?status=x'--")


def test_run_can_be_repeated(operator: User, run: Run) -> None:
    signed_in(operator).post(reverse("benchmarks:again", args=[run.uuid]))
    assert Run.objects.count() == 2


def test_run_deletion_requires_confirmation(operator: User, run: Run) -> None:
    client, url = signed_in(operator), reverse("benchmarks:delete", args=[run.uuid])
    text(client, url)
    assert Run.objects.exists()
    client.post(url)
    assert not Run.objects.exists()


# --- who may what ---

RUN_PAGES = ("detail", "export-json", "export-csv", "delete")
RUN_ACTIONS = ("cancel", "again", "delete")


@pytest.mark.parametrize("name", RUN_PAGES)
def test_run_is_hidden_from_outsiders(outsider: User, run: Run, name: str) -> None:
    assert signed_in(outsider).get(reverse(f"benchmarks:{name}", args=[run.uuid])).status_code == 404
    assert run.title not in text(signed_in(outsider), reverse("benchmarks:list"))


@pytest.mark.parametrize("name", [*RUN_PAGES, "list", "scenarios", "run-create", "compare"])
def test_benchmark_pages_require_sign_in(run: Run, name: str) -> None:
    url = reverse(f"benchmarks:{name}", args=[run.uuid] if name in RUN_PAGES else [])
    response = Client().get(url)
    assert response.status_code in (302, 401, 403)


@pytest.mark.parametrize("name", RUN_ACTIONS)
def test_benchmark_pages_are_read_only_for_viewers(viewer: User, run: Run, name: str) -> None:
    response = signed_in(viewer).post(reverse(f"benchmarks:{name}", args=[run.uuid]))
    assert response.status_code == 403
    assert Run.objects.get().status == RunStatus.FINISHED


def test_viewers_cannot_create_scenarios_and_runs(viewer: User, scenario: Scenario, site: Site) -> None:
    client = signed_in(viewer)
    assert client.post(reverse("benchmarks:scenario-create", args=["wrk"]), FORM).status_code == 403
    assert client.post(reverse("benchmarks:quick"), {"quick": QUICK[0].slug}).status_code == 403
    form = {"scenario": scenario.pk, "sites": [site.name]}
    assert client.post(reverse("benchmarks:run-create"), form).status_code == 403
    assert not Run.objects.exists()


def test_run_form_rejects_site_of_another_team(outsider: User, scenario: Scenario, site: Site) -> None:
    form = {"scenario": scenario.pk, "sites": [site.name]}
    response = signed_in(outsider).post(reverse("benchmarks:run-create"), form)
    assert response.status_code in (200, 422)
    assert not Run.objects.exists()


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_run_event_stream_rejects_cross_origin_pages(operator: User, run: Run, headers: dict[str, str]) -> None:
    response = signed_in(operator).get(reverse("job-events", args=[run.uuid]), headers=headers)
    assert response.status_code == 403


@pytest.mark.django_db(transaction=True)
def test_run_event_stream_ends_with_run(operator: User, run: Run) -> None:
    async def listen() -> str:
        client = AsyncClient()
        await client.aforce_login(operator, backend="django.contrib.auth.backends.ModelBackend")
        response = await client.get(reverse("job-events", args=[run.uuid]))
        assert response["Content-Type"] == "text/event-stream"
        return "".join([part.decode() async for part in response.streaming_content])

    told = async_to_sync(listen)()
    assert told.startswith("event: live\ndata: ")
    assert told.endswith("event: done\ndata: finished\n\n")


def test_run_form_selects_sites_by_tag(operator: User, scenario: Scenario, site: Site, second: Site) -> None:
    """By the tags of the sites and of their hosts."""
    site_update(actor=operator, site=second, tags=["eu", "prod"])
    host = site.web_server.host if site.web_server else None
    assert host is not None
    Host.objects.filter(pk=host.pk).update(tags=["rack-7"])
    client = signed_in(operator)
    for url in ("/benchmarks/new", "/reports/schedules/new"):
        page = text(client, url)
        assert page.count('name="sites"') == 2
        assert all(f"<option>{tag}</option>" in page for tag in ("eu", "prod", "rack-7"))
        narrowed = text(client, f"{url}?tag=prod")
        assert narrowed.count('name="sites"') == 1 and 'value="second"' in narrowed
        assert re.search(r"<option\s+selected>prod</option>", narrowed)
        assert text(client, f"{url}?tag=rack-7").count('name="sites"') == 2
        assert text(client, f"{url}?tag=nobody-has-this").count('name="sites"') == 2
    assert text(client, f"/benchmarks/new?tag=prod&sites={site.name}").count('name="sites"') == 2, "ticked ones stay"
