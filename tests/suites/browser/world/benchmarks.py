"""Runs of a benchmark, with the figures of a recorded one."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import User
from panel.benchmarks import selectors
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Run, RunTarget, Scenario
from panel.benchmarks.runs.measured import measured_json
from panel.benchmarks.statistics.summary import summarize
from panel.benchmarks.tools.parsers import Output, parse
from panel.hosts.models import Host, WebServer
from panel.websites.models import Site
from tests.benchmarks.finished_runs import recorded, rounds_make
from tests.benchmarks.published_results import suite_row
from tests.suites.browser.world.hosts import LONG_HOST
from tests.suites.security.world import KEY


def _run(owner: User, scenario: Scenario, sites: list[Site], servers: list[WebServer], **values: Any) -> Run:
    now = timezone.now()
    parameters = Run.objects.get(pk=KEY).parameters | {"rounds": 3, "warmup_s": 2}
    run = Run.objects.create(
        scenario=scenario, parameters=parameters, requested_by=owner, started_at=now, finished_at=now, **values
    )
    result = recorded("ab-seconds-new-connections")
    metrics = measured_json(
        parse(Tool.AB, Output(result["stdout"], result["stderr"], 0, result["outputs"], result["latency"])), result
    )
    for position, (site, at) in enumerate(zip(sites[:2], servers, strict=False)):
        target = RunTarget.objects.create(
            run=run,
            position=position,
            site=site,
            web_server=at,
            revision=site.revisions.get(),
            label=f"{site.name}, {at.get_engine_display()}",
            base_url=f"http://127.0.0.1:80{position}",
            engine=at.engine,
        )
        rounds_make(target, result, metrics)
    return run


def build(owner: User, sites: list[Site], servers: list[WebServer]) -> list[str]:
    """One that ended, one that must not be believed, one that goes on; and the first two side by side."""
    scenario = Scenario.objects.get(pk=KEY)
    host = {"kernel": "6.1", "cpus_usable": 16, "memory_bytes": 2**36, "tools": {"ab": {"version": "2.3"}}}
    seen = {
        "label": "shop, nginx",
        "engine": "nginx",
        "version": "1.22.1",
        "revision": 1,
        "host": LONG_HOST,
        "base_url": "http://shop.example",
        "listener": "127.0.0.1:80",
    }
    done = []
    for title, status, reasons in (
        ("The shop on nginx and Apache, after the move", "finished", []),
        ("Too busy", "invalid", ["Another process used 35 % of the CPU.", "2 % of the answers were errors."]),
    ):
        run = _run(owner, scenario, sites, servers, title=title, status=status, reasons=reasons)
        engines = {target.position: target.engine for target in run.targets.all()}
        run.summary = summarize(selectors.measured_rounds(run), engines)
        run.fingerprint = {"hosts": {LONG_HOST: host}, "targets": [seen]}
        run.save()
        done.append(run)
    going = _run(
        owner, scenario, sites, servers, title="Under way", status="running", progress="Round 2 of 3: shop, nginx"
    )
    compared = "&".join(f"run={run.uuid}" for run in done)
    found = [reverse("benchmarks:detail", args=[run.uuid]) for run in (*done, going)]
    return [*found, f"{reverse('benchmarks:compare')}?{compared}", *_suites(owner, servers[0].host)]


def _suites(owner: User, host: Host) -> list[str]:
    """One of every kind of table, as they were measured: a load's rounds, a grid of links with cases that are not to be
    believed, PHP with its pictures; one that goes on, and two side by side."""
    rows = [
        suite_row(name, owner, host)
        for name in ("small-static-files/openlitespeed", "http3-2019/files", "http3-2019/openlitespeed")
    ]
    rows.append(suite_row("php-application-2020/wordpress-files", owner, host, cases=1))
    going = suite_row("http3-2019/million-h3", owner, host, status="running", finished_at=None)
    going.runs.update(status="running", progress="Round 2 of 3: gallop, 200 Mbit/s, 10 ms")
    paths = [reverse("benchmarks:suite", args=[row.uuid]) for row in (*rows, going)]
    paths.append(f"{reverse('benchmarks:suite-compare')}?suite={rows[1].uuid}&suite={rows[2].uuid}")
    return paths
