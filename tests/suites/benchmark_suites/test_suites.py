"""The short preset of each suite, run to its end on real servers from page and API."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.conf import LazySettings
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from panel.accounts.models import User
from panel.benchmarks.models import Round, Run, RunStatus, SuiteRun, SuiteStatus
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites.availability import expected
from panel.benchmarks.suites.choosing import Choice, duration_words
from panel.benchmarks.suites.results import tables
from panel.benchmarks.suites.services import suite_cancel, suite_repeat, suite_start
from panel.core.errors import ApplicationError
from panel.hosts.models import Host
from panel.remote import pool
from tests.benchmarks.test_pages import text
from tests.suites.benchmark_suites.suite_runner import add_web_servers, carried_out, lsphp
from tests.support.cast import signed_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def servers(host: Host, settings: LazySettings, server_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    settings.LOCAL_HOST_ROOT = server_root / "host"
    monkeypatch.setenv("TMPDIR", str(server_root))  # of the agent: where stands are
    add_web_servers(host)
    host.facts = {"lsphp": lsphp()}
    host.save()
    yield host
    pool.close()
    assert not list(server_root.glob("*paddock-testbed-*")), "nothing of a test bed is left"


def result_page(client: Client, row: SuiteRun) -> str:
    return text(client, reverse("benchmarks:suite", args=[row.uuid]))


def test_small_static_files_suite_runs_from_page(operator: User, servers: Host) -> None:
    client = signed_in(operator)
    url = reverse("benchmarks:suite-start", args=["small-static-files"])
    assert client.post(url, {"host": servers.name, "preset": "short"}).status_code == 302
    row = SuiteRun.objects.get()
    assert "Waiting" in result_page(client, row)
    runs = carried_out(row)
    assert [run.error for run in runs] == ["", ""]
    assert row.status == SuiteStatus.FINISHED
    # The kernel counts in ticks of 10 ms, which gallop takes for all of a round: a busy machine's may hold none.
    cpu_s: Counter[str] = Counter()
    for counted in Round.objects.filter(target__run__in=runs):
        assert counted.metrics["non2xx"] == 0
        assert counted.metrics["requests"] == {0: 1_500, 1: 4_000}[counted.target.run.case]
        cpu_s[counted.target.label] += counted.metrics["cpu_s"]["server"]
    assert len(cpu_s) >= 5 and min(cpu_s.values()) > 0, cpu_s
    for table in tables(row):
        names = [cells[0].text for cells in table.rows]
        has_openlitespeed = servers.web_servers.filter(engine="openlitespeed").exists()
        ours_named = ["Apache, prefork", "Apache, worker", "Apache, event", "nginx", "gallop"]
        ours_named += ["OpenLiteSpeed"] if has_openlitespeed else []
        assert names == [*ours_named, "LiteSpeed"]
        ours = [dict(zip(table.head, cells, strict=True)) for cells in table.rows[: len(ours_named)]]
        assert all(cells[f"Round {number}"].value for cells in ours for number in (1, 2, 3))
        assert min(cells["Rating"].value for cells in ours) == 100
        assert ours[4]["Published rating"].value is None, "nobody published gallop"
    page = result_page(client, row)
    for words in ("quick preview", "9,442", "Published average", "LiteSpeed (published)", "dual Athlon"):
        assert words in page, words
    heads = [chart.table.head[0] for part in suite_results.result(row)["parts"] for chart in part.charts]
    assert heads == ["Web server", "Web server"], "without links there is no case to name beside the servers"
    versions = {web_server.engine: web_server.version for web_server in servers.web_servers.all()}
    assert f"Apache, event {versions['apache']}; nginx {versions['nginx']}; gallop {versions['native']}" in page
    exported = json.loads(text(client, reverse("benchmarks:suite-json", args=[row.uuid])))
    assert (exported["shortened"], len(exported["runs"]), len(exported["tables"])) == (True, 2, 2)
    lines = list(csv.DictReader(io.StringIO(text(client, reverse("benchmarks:suite-csv", args=[row.uuid])))))
    assert {"table", "row", "column", "value", "published"} < set(lines[0])
    assert [line["value"] for line in lines if line["row"] == "nginx" and line["published"] == "1"][:2] == [
        "7462.58",
        "292",
    ]


def test_php_suite_samples_php_separately(operator: User, servers: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = SUITES["php-application-2020"]
    cases = tuple(replace(case, rounds=1) for case in suite.short)
    monkeypatch.setitem(SUITES, suite.slug, replace(suite, short=cases))
    row = suite_start(actor=operator, suite=suite.slug, preset="short", host=servers, setups=["nginx-fpm"])
    info, images, browsing, pages = carried_out(row)
    assert {run.error for run in (info, images, browsing, pages)} == {""}
    rounds = Round.objects.filter(target__run__in=[info, browsing, pages])
    for counted in rounds:
        assert counted.error == "", f"{counted.error}\n{counted.output}"
        assert counted.metrics["failed"] == counted.metrics["non2xx"] == 0, counted.output
    # The kernel counts in ticks of 10 ms: a short round of few pages may meet none.
    assert sum(counted.metrics["cpu_s"]["application"] for counted in rounds) > 0
    fetched = [sum(found.metrics["bytes"] for found in of_run(run)) for run in (browsing, pages)]
    assert fetched[0] > 2 * fetched[1], "the parser fetched what pages link to"
    page = result_page(signed_in(operator), row)
    for words in ("PHP memory", "Conclusion of the published benchmark", "Memory over time"):
        assert words in page, words


def of_run(run: Run) -> list[Round]:
    return list(Round.objects.filter(target__run=run))


# Keeps siege waiting long enough for php-fpm to start all its children and then to notice that they do not suffice: it
# looks once a second. The page does not ask fpm_get_status: PHP 8.2 can crash there while children are started. Who
# asks only whether the page answers is not kept: alone they would not fill the pool.
HELD = """<?php
if (stripos($_SERVER['HTTP_USER_AGENT'] ?? '', 'siege') !== false) { sleep(2); }
echo 'held';
"""


def test_full_php_pool_is_reported(operator: User, servers: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = SUITES["php-application-2020"]
    content = replace(suite.content, texts=(("held.php", HELD), *suite.content.texts))
    arguments = {"concurrency": 15, "requests": 15, "keepalive": False}
    case = replace(suite.short[0], arguments=arguments, paths=("/held.php",), rounds=1)
    monkeypatch.setitem(SUITES, suite.slug, replace(suite, content=content, short=(case,)))
    row = suite_start(actor=operator, suite=suite.slug, preset="short", host=servers, setups=["nginx-fpm"])
    (run,) = carried_out(row)
    assert run.error == ""
    (counted,) = of_run(run)
    assert any("php-fpm reached its limit of 5 children" in words for words in counted.metrics["remarks"]), (
        counted.output
    )
    assert "reached its limit of 5 children" in result_page(signed_in(operator), row)


def test_http3_suite_runs_over_shaped_links(operator: User, servers: Host) -> None:
    row = suite_start(actor=operator, suite="http3-2019", preset="short", host=servers, setups=["gallop"])
    *multiplexed, shallow = carried_out(row)
    runs = {run.parameters["testbed"]["case"]["arguments"]["protocol"]: run for run in multiplexed}
    for protocol in ("h3", "h2", "h1"):
        run = runs[protocol]
        assert run.error == ""
        network = run.fingerprint["network"]
        assert network["asked"] == {
            "bandwidth_kbit": 100_000,
            "rtt_us": 10_000,
            "queue_packets": 1000,
            "jitter_us": 0,
            "loss_ppm": 0,
        }
        assert network["measured"]["rtt_us"]["min"] >= 10_000
        for counted in Round.objects.filter(target__run=run):
            # Ten connections with at most ten requests on the way: no more than so many in a round trip.
            most = 10 * (1 if protocol == "h1" else 10) / 0.010
            assert 0 < counted.metrics["throughput_rps"] <= most
    assert shallow.error == ""
    for counted in Round.objects.filter(target__run=shallow):
        assert counted.argv[0] == "gallop-load", "the distribution's h2load speaks no HTTP/3"
        # 200 kB at 5 Mbit/s take 0.32 s, and a round trip of 20 ms at least.
        assert counted.metrics["duration_s"] >= 0.34
        assert counted.metrics["bytes"] >= 200_000
    assert "25,230" in result_page(signed_in(operator), row), "what was published for OpenLiteSpeed"


def test_part_of_suite_is_selected_and_marked(operator: User, servers: Host) -> None:
    client = signed_in(operator)
    start = reverse("benchmarks:suite-start", args=["http3-2019"])
    wanted = {"cases": ["small-multiplexed", "file-10mb"], "protocols": ["h3"], "setups": ["gallop", "nginx"]}
    buttons = text(client, reverse("benchmarks:suite-expected", args=["http3-2019"]) + "?" + urlencode(wanted, True))
    assert "6 cases, about " in buttons and "This preset has no case “One file of 10 MB” (file-10mb)" in buttons
    assert client.post(start, {"host": servers.name, "preset": "full", **wanted}).status_code == 302
    row = SuiteRun.objects.get()
    slugs = [case["slug"] for case in row.plan]
    assert slugs == [f"{case}-{number}-h3" for case in ("small-multiplexed", "file-10mb") for number in range(3)]
    assert row.title == "HTTP/3 over emulated links, a part, on here"
    page = result_page(client, row)
    for words in (
        "Only this part of the suite",
        "Small page, ten concurrent streams; One file of 10 MB; HTTP/3",
        "take about",
    ):
        assert words in page, words
    assert "Partial run" in text(client, reverse("benchmarks:suites"))
    again = suite_repeat(actor=operator, row=row)
    again.refresh_from_db()
    assert again.plan == row.plan
    exported = json.loads(text(client, reverse("benchmarks:suite-json", args=[row.uuid])))
    assert exported["part"] == {"cases": ["small-multiplexed", "file-10mb"], "protocols": ["h3"]}


def test_invalid_suite_selection_is_rejected_with_message(operator: User, servers: Host) -> None:
    def refused(choice: Choice, setups: list[str] | None = None, preset: str = "full") -> str:
        with pytest.raises(ApplicationError) as caught:
            suite_start(
                actor=operator, suite="http3-2019", preset=preset, host=servers, setups=setups or [], choice=choice
            )
        return caught.value.message

    assert "This preset has no case “file-2tb”" in refused(Choice(cases=("file-2tb",)))
    assert "none of the selected cases uses these protocols" in refused(
        Choice(cases=("shallow-queue",), protocols=("h2",)), preset="short"
    )
    assert "do not support HTTP/3, which the cases need: Apache." in refused(Choice(protocols=("h3",)), ["apache"])
    assert SuiteRun.objects.count() == 0


def test_published_case_can_be_selected_with_expected_time() -> None:
    suite = SUITES["http3-2019"]
    (case,) = Choice(cases=("small-short-0",), protocols=("h3",)).of(suite, "full")
    assert case.slug == "small-short-0-h3"
    # 10,000 requests, of which nginx answered 890 a second: three rounds of 11.2 s.
    count, alone = expected("http3-2019", "full", ["nginx"], Choice(cases=("small-short-0-h2",)), None)
    assert (count, 3 * 11.2 < alone < 3 * 11.2 + 25) == (1, True)
    # A GB at 1 Gbit/s takes eight seconds, though nothing was published.
    assert 24 < expected("http3-2019", "full", ["gallop"], Choice(cases=("file-1gb-0-h3",)), None)[1] < 45
    assert expected("http3-2019", "full", (), Choice(), None)[1] > 3600
    assert expected("small-static-files", "short", (), Choice(), None)[1] < 180


def test_expected_time_counts_web_servers_of_host(operator: User, servers: Host) -> None:
    """The time beside the buttons equals the one that the started run shows."""
    servers.web_servers.exclude(engine="nginx").delete()
    client = signed_in(operator)
    start = reverse("benchmarks:suite-start", args=["http3-2019"])
    address = reverse("benchmarks:suite-expected", args=["http3-2019"])
    everything, here = text(client, address), text(client, f"{address}?host={servers.name}")
    assert "57 cases" in everything and "38 cases" in here, "Debian's nginx speaks no HTTP/3"
    assert here in text(client, reverse("benchmarks:suites")), "the page begins with the same host"
    assert client.post(start, {"host": servers.name, "preset": "full"}).status_code == 302
    row = SuiteRun.objects.get()
    assert f"38 cases, {duration_words(suite_results.expected_s(row))}" in here
    words = text(client, f"{address}?host={servers.name}&protocols=h3")
    assert "do not support HTTP/3" in words
    servers.web_servers.all().delete()
    assert "has none of the suite&#x27;s web servers" in text(client, f"{address}?host={servers.name}")


def test_suite_cancel_ends_case_and_starts_no_other(operator: User, servers: Host) -> None:
    row = suite_start(actor=operator, suite="small-static-files", preset="short", host=servers)
    client = signed_in(operator)
    named = re.findall(r'"/static/([^"?]+)', result_page(client, row))
    assert "js/live_region.js" in named, "the page follows the suite"
    assert [name for name in named if not finders.find(name)] == []
    assert client.post(reverse("benchmarks:suite-cancel", args=[row.uuid])).status_code == 302
    carried_out_after = carried_out(row)
    row.refresh_from_db()
    assert row.status == SuiteStatus.CANCELLED
    assert [run.status for run in row.runs.all()] in ([], [RunStatus.CANCELLED])
    assert not carried_out_after or carried_out_after[0].status == RunStatus.CANCELLED
    page = result_page(client, row)
    assert "Not run" in page


def test_viewer_can_see_suite_but_not_start_it(viewer: User, operator: User, servers: Host) -> None:
    row = suite_start(actor=operator, suite="small-static-files", preset="short", host=servers)
    client = signed_in(viewer)
    assert "Run a quick preview" not in text(client, reverse("benchmarks:suites"))
    assert row.title in text(client, reverse("benchmarks:suites"))
    for name, args in (
        ("suite-start", ["small-static-files"]),
        ("suite-cancel", [row.uuid]),
        ("suite-again", [row.uuid]),
    ):
        answer = client.post(reverse(f"benchmarks:{name}", args=args), {"host": servers.name, "preset": "short"})
        assert answer.status_code == 403, name
    assert SuiteRun.objects.get().status == SuiteStatus.RUNNING


def test_suite_names_web_servers_missing_on_host(operator: User, servers: Host) -> None:
    servers.web_servers.filter(engine__in=("native", "openlitespeed")).delete()
    php = suite_start(actor=operator, suite="php-application-2020", preset="short", host=servers)
    assert php.left_out == [
        "gallop + php-fpm is skipped: here has no gallop.",
        "OpenLiteSpeed + php-fpm; OpenLiteSpeed + lsphp over TCP and OpenLiteSpeed + lsphp (managed) are "
        "skipped: here has no OpenLiteSpeed.",
    ]
    row = suite_start(actor=operator, suite="small-static-files", preset="short", host=servers)
    assert row.left_out == [
        "gallop is skipped: here has no gallop.",
        "OpenLiteSpeed is skipped: here has no OpenLiteSpeed.",
    ]
    servers.web_servers.all().delete()
    page = signed_in(operator).post(
        reverse("benchmarks:suite-start", args=["http3-2019"]), {"host": servers.name, "preset": "full"}, follow=True
    )
    assert "has none of the suite&#x27;s web servers" in page.content.decode()


def test_lsphp_setups_are_left_out_when_missing_or_reachable(operator: User, servers: Host) -> None:
    # A row alone: nothing of this test is started.
    servers.web_servers.exclude(engine="nginx").delete()
    servers.web_servers.update(engine="openlitespeed")
    suite = {"suite": "php-application-2020", "preset": "short", "host": servers}
    chosen = ["openlitespeed-tcp", "openlitespeed-socket"]
    servers.facts = {"uid": 0}
    with pytest.raises(ApplicationError, match=r"lsphp was not found on here.*then check the host"):
        suite_start(actor=operator, setups=chosen, **suite)
    servers.facts = {"uid": 1000, "lsphp": "/opt/lsws/lsphp83/bin/lsphp"}
    row = suite_start(actor=operator, setups=chosen, **suite)
    assert [item["slug"] for item in row.setups] == ["openlitespeed-socket"]
    assert row.left_out == [
        "OpenLiteSpeed + lsphp over TCP is skipped: this configuration needs a network namespace, "
        "and Paddock needs root on here to create the namespace."
    ]
    servers.facts["uid"] = 0
    again = suite_start(actor=operator, setups=chosen, **suite)
    assert [item["slug"] for item in again.setups] == chosen
    suite_cancel(actor=operator, row=row)
    suite_cancel(actor=operator, row=again)


def test_lsphp_setups_run_over_tcp_and_started_by_server(operator: User, servers: Host) -> None:
    """With PADDOCK_OPENLITESPEED and its lsphp (lsphp83/bin/lsphp) the set-ups run; otherwise the reasons are shown."""
    chosen = ["openlitespeed-tcp", "openlitespeed-socket", "nginx-fpm"]
    choice = Choice(cases=("phpinfo",))
    row = suite_start(
        actor=operator,
        suite="php-application-2020",
        preset="short",
        host=servers,
        setups=chosen,
        choice=choice,
    )
    (run,) = carried_out(row)
    assert run.error == ""
    labels = [target.label for target in run.targets.order_by("position")]
    has_lsphp = servers.web_servers.filter(engine="openlitespeed").exists() and servers.facts["lsphp"]
    assert len(labels) == (3 if has_lsphp else 1) and bool(row.left_out) == (len(labels) < 3)
    for counted in of_run(run):
        assert counted.error == "" and counted.metrics["non2xx"] == counted.metrics["failed"] == 0, counted.output
        assert {"server", "application"} <= set(counted.metrics["cpu_s"]), counted.target.label
        assert counted.samples["application"] and counted.samples["server"], counted.target.label
