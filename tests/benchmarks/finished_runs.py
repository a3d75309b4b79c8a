"""Finished runs without measuring again: rounds made of what the real tools once printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.utils import timezone

from panel.accounts.models import User
from panel.benchmarks import selectors
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Round, Run, RunStatus, RunTarget, Scenario
from panel.benchmarks.runs.measured import measured_json
from panel.benchmarks.runs.services import run_create
from panel.benchmarks.statistics.summary import summarize
from panel.benchmarks.tools.parsers import Output, parse
from panel.websites.models import Site

DATA = Path(__file__).parent / "data"


def recorded(name: str) -> dict[str, Any]:
    """A BenchResult as the agent gave it, with samples of a server that was busy during the load."""
    data = json.loads((DATA / f"{name}.json").read_text())
    busy = [[t / 5, 90.0 if 2 < t < 8 else 0.0, 9_000_000 + 10_000 * t] for t in range(10)]
    more = {
        "samples": {"server": busy, "tool": busy[2:8]},
        "cpu_s": {"server": 0.9, "tool": 0.6},
        "phases": [["idle", 0.0, 0.5], ["load", 0.5, 1.6], ["idle", 1.6, 2.0]],
        "open_files": 1024,
        "disk_full": False,
    }
    return {**data, **more}


def rounds_make(target: RunTarget, result: dict[str, Any], metrics: dict[str, Any]) -> None:
    """Three rounds of what was recorded, each faster than the one before, and than those of the targets before."""
    now = timezone.now()
    for number in range(1, 4):
        factor = 1 + 0.1 * target.position + 0.01 * number
        Round.objects.create(
            target=target,
            number=number,
            argv=result["argv"],
            exit_code=0,
            output=result["stdout"],
            metrics=metrics | {"throughput_rps": metrics["throughput_rps"] * factor},
            samples=result["samples"],
            started_at=now,
            finished_at=now,
        )


def finished_run(
    actor: User, scenario: Scenario, sites: Sequence[Site], name: str = "ab-seconds-new-connections"
) -> Run:
    run = run_create(actor=actor, scenario=scenario, sites=sites)
    result = recorded(name)
    output = Output(result["stdout"], result["stderr"], 0, result["outputs"], result["latency"])
    metrics = measured_json(parse(Tool(name.split("-")[0]), output), result)
    for target in run.targets.all():
        rounds_make(target, result, metrics)
    now = timezone.now()
    engines = {target.position: target.engine for target in run.targets.all()}
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.FINISHED,
        started_at=now,
        finished_at=now,
        summary=summarize(selectors.measured_rounds(run), engines),
        fingerprint={
            "hosts": {"here": {"kernel": "6.1", "cpus_usable": 2, "memory_bytes": 2**34, "tools": {}}},
            "targets": [],
        },
    )
    return Run.objects.get(pk=run.pk)
