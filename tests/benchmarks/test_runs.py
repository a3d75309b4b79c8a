"""Whole runs: service, worker, agent as a child process, real tools and a real nginx."""

from __future__ import annotations

import subprocess
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import Team, User
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Round, Run, RunStatus, Scenario
from panel.benchmarks.runs import execution
from panel.benchmarks.runs.services import run_cancel, run_create, run_repeat, scenario_create
from panel.core.claims import Attempt
from panel.hosts.locks import host_lock
from panel.hosts.models import Host, HostLock, Layout, WebServer
from tests.benchmarks.conftest import QUICK, LiveSites, deployed, make_site
from tests.support.bundled_programs import load_binary
from tests.support.cast import signed_in
from tests.support.gallop import GallopInstance
from tests.support.php import PhpFpm
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)


def executed(run: Run) -> Run:
    assert execution.run_execute(run.uuid) == Attempt.DONE
    return Run.objects.get(pk=run.pk)


def test_run_measures_two_sites_round_by_round(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one, live_sites.two]))
    assert (run.status, run.error) in ((RunStatus.FINISHED, ""), (RunStatus.INVALID, "")), run.error
    rounds = Round.objects.filter(target__run=run).order_by("started_at")
    order = [(row.number, row.target.position) for row in rounds]
    assert order == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]
    for row in rounds:
        assert row.exit_code == 0
        assert "Requests per second:" in row.output
        assert row.metrics["requests"] > 500
        assert row.metrics["non2xx"] == 0
        assert row.metrics["cpu_s"]["server"] > 0
        assert [phase[0] for phase in row.metrics["phases"]] == ["idle", "load", "idle"]
        assert len(row.samples["server"]) >= 3
    one, _ = run.summary["targets"]
    assert one["figures"]["throughput_rps"]["rounds"] == 3
    assert one["figures"]["latency_p99"]["value"] > 0
    assert "latency_p99_9" not in one["figures"], "ab does not tell it"
    (ratio,) = run.summary["ratios"]
    assert ratio["baseline"] == one["label"]
    assert 0.2 < ratio["figures"]["throughput_rps"]["value"] < 5
    assert run.fingerprint["targets"][0]["content"]["/"]["status"] == 200
    assert run.fingerprint["hosts"]["here"]["tools"]["ab"]["version"]
    assert not HostLock.objects.exclude(holder="").exists()


def test_run_compares_nginx_and_apache(operator: User, live_sites: LiveSites) -> None:
    """Both serve the same page."""
    values = {"tool": "wrk", "arguments": QUICK, "paths": ["/"], "rounds": 3, "warmup_s": 0}
    scenario = scenario_create(actor=operator, name="Both", **values)
    apache = live_sites.apache("three")
    with apache.server:
        run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one, apache.site]))
    assert run.error == ""
    for row in Round.objects.filter(target__run=run):
        assert row.metrics["requests"] > 100
        assert row.metrics["cpu_s"]["server"] > 0, row.target.label
        assert max(sample[2] for sample in row.samples["server"]) > 1_000_000
    ratio = run.summary["ratios"][0]
    assert (ratio["label"], ratio["baseline"]) == ("three (Apache httpd, here)", "one (nginx, here)")
    assert ratio["figures"]["cpu_per_1000"]["verdict"] == "higher", "Apache takes more CPU for a small file than nginx"


@pytest.mark.parametrize("tool", list(Tool))
def test_run_works_with_every_tool(operator: User, live_sites: LiveSites, tool: Tool) -> None:
    # siege counts a failed request when nginx closes a kept connection.
    arguments = {**QUICK, "keepalive": False} if tool == Tool.SIEGE else QUICK
    load = {"tool": tool, "arguments": arguments, "paths": ["/"], "rounds": 1, "warmup_s": 1}
    scenario = scenario_create(actor=operator, name=tool, **load)
    run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one]))
    assert run.error == ""
    warm_up, counted = Round.objects.filter(target__run=run).order_by("number")
    assert (warm_up.number, counted.number) == (0, 1)
    assert counted.metrics["requests"] > 100
    assert counted.metrics["failed"] == 0
    assert run.summary["targets"][0]["figures"]["throughput_rps"]["rounds"] == 1
    page = signed_in(operator).get(reverse("benchmarks:detail", args=[run.uuid])).content.decode()
    version = run.fingerprint["hosts"]["here"]["tools"][tool]["version"]
    assert version and f"{tool} {version}" in page
    assert "closed loop: each connection waits" in page


def test_gallop_load_keeps_rate_and_page_shows_it(
    operator: User, live_sites: LiveSites, settings: LazySettings
) -> None:
    settings.LOAD_BINARY = load_binary()
    arguments = {"requests": 40, "concurrency": 2, "rate_rps": 20}
    values = {"tool": "h2load", "arguments": arguments, "paths": ["/"], "rounds": 1, "warmup_s": 0}
    scenario = scenario_create(actor=operator, name="Paced", **values)
    run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one]))
    assert (run.status, run.error, run.reasons) == (RunStatus.FINISHED, "", [])
    row = Round.objects.get(target__run=run)
    assert row.argv[0] == "gallop-load" and '"open_loop":true' in row.output
    assert row.metrics["requests"] == 40 and 0.9 < row.metrics["duration_s"] < 20, "40 at 2 x 20 /s"
    page = signed_in(operator).get(reverse("benchmarks:detail", args=[run.uuid])).content.decode()
    assert "gallop-load" in page and "open loop" in page and "closed loop" not in page


def test_run_over_http3_does_not_depend_on_h2load_of_host(
    operator: User, host: Host, team: Team, server_root: Path, settings: LazySettings
) -> None:
    settings.LOAD_BINARY, settings.LOCAL_HOST_ROOT = load_binary(), server_root / "host"
    port, server = free_port(), GallopInstance(server_root)
    argv = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=quick.example"
    files = ["-keyout", f"{server_root}/key.pem", "-out", f"{server_root}/cert.pem"]
    subprocess.run([*argv.split(), *files], check=True, capture_output=True)
    (server_root / "conf.d" / "site.conf").write_text(
        f"server {{ listen 127.0.0.1:{port} ssl; listen 127.0.0.1:{port} quic reuseport; return 200 ok;\n"
        f"  ssl_certificate {server_root}/cert.pem; ssl_certificate_key {server_root}/key.pem; }}\n"
    )
    values = {"engine": "native", "layout": Layout.CONF_D, "version": "0.1.0", "paths": server.paths}
    site = make_site("quick", team, WebServer.objects.create(host=host, **values), port, tls=True)
    site.blocks.get().listens.update(http3=True)
    deployed(site)
    arguments = {"requests": 100, "concurrency": 2, "streams": 5, "protocol": "h3", "tls": True}
    load = {"tool": "h2load", "arguments": arguments, "paths": ["/"], "rounds": 1, "warmup_s": 0}
    scenario = scenario_create(actor=operator, name="QUIC", **load)
    with server:
        run = executed(run_create(actor=operator, scenario=scenario, sites=[site]))
    assert run.error == "", run.error
    row = Round.objects.get(target__run=run)
    speaks = run.fingerprint["hosts"]["here"]["tools"]["h2load"]["h3"]
    assert row.argv[0] == ("h2load" if speaks else "gallop-load")
    assert (row.metrics["requests"], row.metrics["failed"], row.metrics["non2xx"]) == (100, 0, 0)


def test_application_is_sampled_separately_from_web_server(operator: User, live_sites: LiveSites) -> None:
    with PhpFpm(live_sites.nginx.root / "php") as php:
        live_sites.serve_php(live_sites.one, php.address)
        # So many requests, not seconds: the kernel counts in ticks of 10 ms, and on a machine with much to do a second
        # may hold less of the server's work than one.
        arguments = {"requests": 2_000, "concurrency": 4, "protocol": "h1", "dynamic": True}
        values = {"tool": "h2load", "arguments": arguments, "paths": ["/time.php"], "rounds": 1, "warmup_s": 1}
        scenario = scenario_create(actor=operator, name="PHP", **values)
        run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one]))
    assert run.error == ""
    figures = run.summary["targets"][0]["figures"]
    row = Round.objects.get(target__run=run, number=1)
    assert row.metrics["non2xx"] == row.metrics["failed"] == 0
    assert row.metrics["cpu_s"]["application"] > row.metrics["cpu_s"]["server"] > 0
    assert figures["application_cpu"]["value"] > 0
    assert figures["application_rss"]["value"] > 1_000_000
    both = 1000 * (row.metrics["cpu_s"]["application"] + row.metrics["cpu_s"]["server"]) / row.metrics["requests"]
    assert figures["cpu_per_1000"]["value"] == pytest.approx(both)


def test_run_is_rejected_when_content_differs(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    live_sites.serve(live_sites.two, "something else")
    run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one, live_sites.two]))
    assert run.status == RunStatus.FAILED
    assert "different responses for /" in run.error
    assert "100 bytes" in run.error and "14 bytes" in run.error
    assert not Round.objects.filter(target__run=run).exists()


def test_run_is_rejected_when_path_is_missing(operator: User, live_sites: LiveSites) -> None:
    scenario = scenario_create(actor=operator, name="Gone", tool="ab", arguments=QUICK, paths=["/gone"])
    run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one]))
    assert run.status == RunStatus.FAILED
    assert "responds to /gone with status 404" in run.error


def test_run_names_web_server_that_is_down(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    live_sites.nginx.stop()
    assert eventually(lambda: live_sites.nginx.pid is None)
    run = executed(run_create(actor=operator, scenario=scenario, sites=[live_sites.one]))
    assert run.status == RunStatus.FAILED
    assert "one (nginx, here) did not respond to /" in run.error
    assert "Connection" in run.error


def test_deployment_during_run_makes_it_invalid(operator: User, live_sites: LiveSites) -> None:
    scenario = scenario_create(
        actor=operator, name="Once", tool="ab", arguments=QUICK, paths=["/"], rounds=1, warmup_s=1
    )
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.one])

    def deploy_meanwhile() -> None:
        assert eventually(lambda: Round.objects.filter(target__run=run, number=1).exists())
        deployed(live_sites.one, number=2)
        connection.close()

    thread = threading.Thread(target=deploy_meanwhile)
    thread.start()
    run = executed(run)
    thread.join()
    assert run.status == RunStatus.INVALID
    assert any("the deployed revision of one (nginx, here) changed from 1 to 2" in reason for reason in run.reasons)


def test_cancel_ends_tool_and_keeps_finished_rounds(operator: User, live_sites: LiveSites) -> None:
    arguments = {"concurrency": 2, "duration_s": 60}
    scenario = scenario_create(actor=operator, name="Long", tool="ab", arguments=arguments, paths=["/"], warmup_s=1)
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.one])

    def cancel_meanwhile() -> None:
        assert eventually(lambda: Round.objects.filter(target__run=run, number=1).exists())
        run_cancel(actor=operator, run=run)
        connection.close()

    thread = threading.Thread(target=cancel_meanwhile)
    thread.start()
    begin = timezone.now()
    run = executed(run)
    thread.join()
    assert run.status == RunStatus.CANCELLED
    assert timezone.now() - begin < timedelta(seconds=50)
    assert Round.objects.get(target__run=run, number=0).metrics["requests"] > 0
    assert Round.objects.get(target__run=run, number=1).error == "The round ended early."


def test_queued_run_is_cancelled_at_once(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.one])
    assert run_cancel(actor=operator, run=run).status == RunStatus.CANCELLED
    assert execution.run_execute(run.uuid) == Attempt.NOTHING


def test_run_stays_queued_while_host_is_busy(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.one])
    assert live_sites.one.web_server is not None
    with host_lock(live_sites.one.web_server.host, "deployment 1"):
        assert execution.run_execute(run.uuid) == Attempt.BUSY
    run.refresh_from_db()
    assert run.status == RunStatus.QUEUED
    assert "busy with deployment 1" in run.progress
    assert execution.waiting() == [run.uuid]


def test_run_is_executed_once(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.one])
    Run.objects.filter(pk=run.pk).update(status=RunStatus.RUNNING, claimed_by="another", heartbeat_at=timezone.now())
    assert execution.run_execute(run.uuid) == Attempt.NOTHING
    assert execution.orphans_end() == []


def test_run_of_dead_worker_fails(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.one])
    long_ago = timezone.now() - timedelta(minutes=5)
    Run.objects.filter(pk=run.pk).update(status=RunStatus.RUNNING, claimed_by="gone", heartbeat_at=long_ago)
    assert execution.orphans_end() == [run.uuid]
    run.refresh_from_db()
    assert run.status == RunStatus.FAILED
    assert "worker stopped during this run" in run.error


def test_worker_that_lost_its_run_writes_nothing(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.one])

    def take_away() -> None:
        assert eventually(lambda: Round.objects.filter(target__run=run).exists())
        Run.objects.filter(pk=run.pk).update(claimed_by="another", progress="theirs")
        connection.close()

    thread = threading.Thread(target=take_away)
    thread.start()
    execution.run_execute(run.uuid)
    thread.join()
    run.refresh_from_db()
    assert (run.status, run.claimed_by, run.progress) == (RunStatus.RUNNING, "another", "theirs")


def test_repeated_run_uses_frozen_scenario(operator: User, scenario: Scenario, live_sites: LiveSites) -> None:
    run = run_create(actor=operator, scenario=scenario, sites=[live_sites.two, live_sites.one])
    Scenario.objects.filter(pk=scenario.pk).update(paths=["/other"])
    again = run_repeat(actor=operator, run=run)
    assert again.parameters == run.parameters
    assert [target.site for target in again.targets.all()] == [live_sites.two, live_sites.one]
