"""Runs of a scenario, one after the other, as if they had been measured at the times that a test says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from django.utils import timezone

from panel.accounts.models import User
from panel.benchmarks import selectors
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Round, Run, RunStatus, RunTarget, Scenario, SuiteRun
from panel.benchmarks.runs.measured import measured_json
from panel.benchmarks.runs.services import run_create
from panel.benchmarks.statistics.summary import summarize
from panel.benchmarks.suites import SUITES
from panel.benchmarks.tools.parsers import Output, parse
from panel.reports.choices import Kind
from panel.reports.models import Schedule
from panel.reports.services import schedule_create
from panel.websites.models import Site
from tests.benchmarks.conftest import (  # noqa: F401 - fixtures
    admin,
    host,
    operator,
    outsider,
    scenario,
    site,
    team,
    viewer,
    web_server,
)
from tests.benchmarks.finished_runs import recorded

FACTORS = (0.99, 1.0, 1.01, 1.005, 0.995, 1.002)


@pytest.fixture
def schedule(operator: User, scenario: Scenario, site: Site) -> Schedule:  # noqa: F811
    return schedule_create(
        actor=operator,
        name="Nightly",
        team=scenario.team,
        cron="0 2 * * *",
        timezone="UTC",
        kind=Kind.SCENARIO,
        scenario=scenario,
        sites=[site],
    )


def end_run(
    run: Run,
    speed: float = 1.0,
    *,
    status: str = RunStatus.FINISHED,
    cpu_s: dict[str, float] | None = None,
    **seen: str,
) -> Run:
    """Gives a queued run the rounds of one that is `speed` times as fast as the recorded one, and ends it. `cpu_s`:
    CPU seconds by tree, instead of the recorded ones; `seen`: what its fingerprint says otherwise."""
    now = timezone.now()
    for target in run.targets.all():
        _measure(target, speed, cpu_s)
    engines = {target.position: target.engine for target in run.targets.all()}
    Run.objects.filter(pk=run.pk).update(
        status=status,
        started_at=now,
        finished_at=now,
        progress="",
        summary=summarize(selectors.measured_rounds(run), engines),
        fingerprint=_fingerprint(run, **seen),
    )
    return Run.objects.get(pk=run.pk)


def _measure(target: RunTarget, speed: float, cpu_s: dict[str, float] | None) -> None:
    result = recorded("ab-seconds-new-connections")
    output = Output(result["stdout"], result["stderr"], 0, result["outputs"], result["latency"])
    metrics = measured_json(parse(Tool.AB, output), result)
    if cpu_s is not None:
        metrics["cpu_s"] = cpu_s
    Round.objects.bulk_create(
        Round(
            target=target,
            number=number,
            argv=result["argv"],
            exit_code=0,
            output=result["stdout"],
            metrics=metrics | {"throughput_rps": metrics["throughput_rps"] * speed * factor},
            samples=result["samples"],
            started_at=timezone.now(),
            finished_at=timezone.now(),
        )
        for number, factor in enumerate(FACTORS, 1)
    )


def _fingerprint(
    run: Run, version: str = "1.22.1", governor: str = "performance", revision: int | None = 1, digest: str = "a" * 64
) -> dict[str, Any]:
    machine = {"kernel": "6.1", "governor": governor, "cpus_usable": 2, "memory_bytes": 2**34, "tools": {}}
    server = {"host": "here", "version": version, "revision": revision, "digest": digest, "content": {}}
    seen = [{"label": target.label, "engine": target.engine, **server} for target in run.targets.all()]
    return {"hosts": {"here": machine}, "targets": seen}


@dataclass
class History:
    """`run(speed)` makes one more run of the scenario, ended; `runs` several."""

    run: Callable[..., Run]

    def runs(self, speeds: Sequence[float]) -> list[Run]:
        return [self.run(speed) for speed in speeds]


@pytest.fixture
def history(operator: User, scenario: Scenario, site: Site) -> History:  # noqa: F811
    def one(speed: float = 1.0, **values: Any) -> Run:
        return end_run(run_create(actor=operator, scenario=scenario, sites=[site]), speed, **values)

    return History(one)


def ended_suite(
    history: History,
    speed: float = 1.0,
    *,
    suite: str = "small-static-files",
    setup: str = "nginx",
    fields: dict[str, object] | None = None,
    **seen: str,
) -> SuiteRun:
    """A shortened run of a suite on one set-up alone: one of its cases, `speed` times as fast as recorded. `fields`
    of the case's run; `seen`: what its fingerprint says otherwise."""
    definition = SUITES[suite]
    chosen = definition.setup(setup)
    run = history.run(speed)
    row = SuiteRun.objects.create(
        suite=suite,
        preset="short",
        host=run.targets.get().web_server.host,
        host_name="here",
        title=f"{definition.title} on here",
        plan=[definition.short[0].stored()],
        setups=[{"slug": chosen.slug, "label": chosen.label, "web_server": None}],
        status="finished",
        finished_at=timezone.now(),
    )
    run.targets.update(label=chosen.label, setup=chosen.slug, site=None)
    values: dict[str, Any] = {
        "summary": summarize(selectors.measured_rounds(run), {0: "nginx"}),
        "fingerprint": _fingerprint(run, revision=None, **seen),
    }
    Run.objects.filter(pk=run.pk).update(suite_run=row, case=0, scenario=None, **(values | (fields or {})))
    return SuiteRun.objects.get(pk=row.pk)


def at(text: str) -> dt.datetime:
    """`2026-01-05 02:00` in UTC."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)
