"""Each suite's short preset to its end, on real servers, started as people and programs start it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from panel.accounts.models import User
from panel.benchmarks.models import Round, RunStatus, SuiteRun, SuiteStatus
from panel.benchmarks.suite_results import tables
from panel.benchmarks.suite_services import suite_start
from panel.hosts.models import Host
from panel.remote import pool
from tests.benchmarks.suites import add_installs, carried_out
from tests.benchmarks.test_pages import signed_in, text

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def servers(host: Host, settings: LazySettings, server_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    settings.LOCAL_HOST_ROOT = server_root / "host"
    monkeypatch.setenv("TMPDIR", str(server_root))  # of the agent: where stands are
    add_installs(host)
    yield host
    pool.close()
    assert not list(server_root.glob("*paddock-stand-*")), "nothing of a stand is left"


def result_page(client: Client, row: SuiteRun) -> str:
    return text(client, reverse("benchmarks:suite", args=[row.uuid]))


def test_small_static_files_by_one_click(operator: User, servers: Host) -> None:
    client = signed_in(operator)
    url = reverse("benchmarks:suite-start", args=["small-static-files"])
    assert client.post(url, {"host": servers.name, "preset": "short"}).status_code == 302
    row = SuiteRun.objects.get()
    assert "Waiting" in result_page(client, row)
    runs = carried_out(row)
    assert [run.error for run in runs] == ["", ""]
    assert row.status == SuiteStatus.FINISHED
    for counted in Round.objects.filter(target__run__in=runs):
        assert counted.metrics["non2xx"] == 0
        assert counted.metrics["requests"] == {0: 1_500, 1: 4_000}[counted.target.run.case]
        assert counted.metrics["cpu_s"]["server"] > 0, counted.target.label
    for table in tables(row):
        names = [cells[0].text for cells in table.rows]
        assert names == ["Apache, prefork", "Apache, worker", "Apache, event", "nginx", "gallop", "litespeed"]
        ours = [dict(zip(table.head, cells, strict=True)) for cells in table.rows[:5]]
        assert all(cells[f"Round {number}"].value for cells in ours for number in (1, 2, 3))
        assert min(cells["Rating"].value for cells in ours) == 100
        assert [cells["Published rating"].value for cells in ours][-1] is None, "nobody published gallop"
    page = result_page(client, row)
    for words in ("Shortened for a first look", "9,442", "Published average", "litespeed (published)", "dual Athlon"):
        assert words in page, words
    versions = {install.engine: install.version for install in servers.installs.all()}
    assert f"Apache, event {versions['apache']}; nginx {versions['nginx']}; gallop {versions['native']}" in page
    exported = json.loads(text(client, reverse("benchmarks:suite-json", args=[row.uuid])))
    assert (exported["shortened"], len(exported["runs"]), len(exported["tables"])) == (True, 2, 2)
    lines = list(csv.DictReader(io.StringIO(text(client, reverse("benchmarks:suite-csv", args=[row.uuid])))))
    assert {"table", "row", "column", "value", "published"} < set(lines[0])
    assert [line["value"] for line in lines if line["row"] == "nginx" and line["published"] == "1"][:2] == [
        "7462.58",
        "292",
    ]


def test_php_is_watched_apart_and_its_full_pool_is_named(operator: User, servers: Host) -> None:
    chosen = ["nginx-fpm"]
    row = suite_start(actor=operator, suite="php-application-2020", preset="short", host=servers, setups=chosen)
    info, images, browsing, pages = carried_out(row)
    assert {run.error for run in (info, images, browsing, pages)} == {""}
    rounds = Round.objects.filter(target__run__in=[info, browsing, pages])
    for counted in rounds:
        assert counted.metrics["failed"] == counted.metrics["non2xx"] == 0, counted.output
    # The kernel counts in ticks of 10 ms: a short round of few pages may meet none.
    assert sum(counted.metrics["cpu_s"]["application"] for counted in rounds) > 0
    with_images = Round.objects.filter(target__run=browsing)
    alone = Round.objects.filter(target__run=pages)
    fetched = sum(counted.metrics["bytes"] for counted in with_images)
    assert fetched > 2 * sum(counted.metrics["bytes"] for counted in alone), "the parser fetched what pages link to"
    said = [words for counted in alone for words in counted.metrics["remarks"]]
    assert any("php-fpm reached its limit of 5 children" in words for words in said), "15 at once wait for 5"
    page = result_page(signed_in(operator), row)
    for words in ("PHP memory", "reached its limit of 5 children", "What the source found", "Memory over time"):
        assert words in page, words


def test_http3_over_shaped_links(operator: User, servers: Host) -> None:
    row = suite_start(actor=operator, suite="http3-2019", preset="short", host=servers, setups=["gallop"])
    *multiplexed, shallow = carried_out(row)
    runs = {run.parameters["stand"]["case"]["arguments"]["protocol"]: run for run in multiplexed}
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


def test_cancelling_ends_the_case_and_begins_no_other(operator: User, servers: Host) -> None:
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


def test_who_may_not_measure_may_look_but_not_start(viewer: User, operator: User, servers: Host) -> None:
    row = suite_start(actor=operator, suite="small-static-files", preset="short", host=servers)
    client = signed_in(viewer)
    assert "First look" not in text(client, reverse("benchmarks:suites"))
    assert row.title in text(client, reverse("benchmarks:suites"))
    for name, args in (
        ("suite-start", ["small-static-files"]),
        ("suite-cancel", [row.uuid]),
        ("suite-again", [row.uuid]),
    ):
        answer = client.post(reverse(f"benchmarks:{name}", args=args), {"host": servers.name, "preset": "short"})
        assert answer.status_code == 403, name
    assert SuiteRun.objects.get().status == SuiteStatus.RUNNING


def test_what_a_host_has_not_is_left_out_by_name(operator: User, servers: Host) -> None:
    servers.installs.filter(engine="native").delete()
    row = suite_start(actor=operator, suite="small-static-files", preset="short", host=servers)
    assert row.left_out == ["gallop is left out: here has no gallop."]
    servers.installs.all().delete()
    page = signed_in(operator).post(
        reverse("benchmarks:suite-start", args=["http3-2019"]), {"host": servers.name, "preset": "full"}, follow=True
    )
    assert "has none of the suite&#x27;s servers" in page.content.decode()
