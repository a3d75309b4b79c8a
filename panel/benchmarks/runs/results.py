"""Contents of the pages of runs: progress, result, and comparison of several runs."""

from __future__ import annotations

from typing import Any, TypedDict

from django.db.models import QuerySet

from panel.benchmarks import selectors
from panel.benchmarks.charts import pictures
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Round, Run
from panel.benchmarks.records import FigureEstimate, Summary, TargetSummary
from panel.benchmarks.runs import change_texts, run_changes
from panel.benchmarks.runs.measured import Measured
from panel.benchmarks.statistics.summary import BY_NAME, FIGURES, Figure
from panel.benchmarks.suites import links
from panel.benchmarks.tools.arguments import TOOLS
from panel.benchmarks.tools.commands import BUNDLED
from panel.core.charts import Chart


class FigureCell(TypedDict):
    """A figure of one target, formatted for display. `value` is "–" if the figure is missing. `interval` is "" if the
    figure has no interval.
    """

    value: str
    interval: str


class FigureRow(TypedDict):
    figure: Figure
    cells: list[FigureCell]


_BARS = ("throughput_rps", "cpu_per_1000")


class Course(TypedDict):
    """Progress of a run: the number of ended rounds, the number of all rounds, and the rounds so far."""

    done: int
    total: int
    rounds: QuerySet[Round]


def course(run: Run) -> Course:
    """Return the progress of a run, with its rounds so far."""
    done, total = selectors.progress_of(run)
    return {"done": done, "total": total, "rounds": selectors.rounds_brief(run)}


def charts(run: Run) -> list[Chart]:
    """Return the charts of an ended run: throughput, ratios, latency curve, CPU per request, CPU and memory
    over time.
    """
    rounds = selectors.measured_rounds(run)
    targets = run.summary.get("targets", [])
    drawn = [pictures.bars(targets, "throughput_rps"), pictures.ratios(run.summary) if targets else None]
    drawn += [pictures.curve(targets), pictures.bars(targets, "cpu_per_1000")]
    drawn += [pictures.over_time(rounds, 1), pictures.over_time(rounds, 2)]
    return [chart for chart in drawn if chart is not None]


def result(run: Run) -> dict[str, object]:
    rounds = selectors.measured_rounds(run)
    targets = run.summary.get("targets", [])
    return {
        "rounds": selectors.rounds_brief(run),
        "remarks": remarks(rounds),
        "figures": figure_rows(targets),
        "verdicts": verdicts(run.summary),
        "charts": charts(run),
        "labels": [target["label"] for target in targets],
        "stands_in": stands_in(run),
        "argument_words": argument_words(run),
        "different_hosts": len({target["host"] for target in run.fingerprint.get("targets", [])}) > 1,
        "hosts": run.fingerprint.get("hosts", {}),
        "network": links.measured_words(run.fingerprint["network"]) if run.fingerprint.get("network") else "",
    }


def remarks(rounds: list[Measured]) -> list[str]:
    """Return the remarks of all rounds, each after the name of its target and round."""
    return [f"{measured.label}, round {measured.number}: {words}" for measured in rounds for words in measured.remarks]


def stands_in(run: Run) -> bool:
    """Return whether the bundled load generator replaced h2load in the run."""
    hosts = run.fingerprint.get("hosts", {}).values()
    return run.parameters.get("tool") == Tool.H2LOAD and any(BUNDLED in host.get("programs", {}) for host in hosts)


def tool_words(run: Run) -> str:
    """Name the load tool of a run and its kind of load: "closed loop" waits for responses, "open loop" sends at a fixed
    rate.
    """
    own = stands_in(run)
    tool = f"{BUNDLED}, Paddock's load generator, as a replacement for h2load" if own else run.parameters["tool"]
    return f"{tool} ({'open' if own and run.parameters['arguments'].get('rate_rps') else 'closed'} loop)"


def figure_rows(targets: list[TargetSummary]) -> list[FigureRow]:
    """Return one row for each figure that a target has, with one cell of formatted text for each target."""
    rows: list[FigureRow] = []
    for figure in FIGURES:
        found = [target["figures"].get(figure.name) for target in targets]
        if any(found):
            rows.append({"figure": figure, "cells": [_cell(figure.name, value) for value in found]})
    return rows


def _cell(name: str, found: FigureEstimate | None) -> FigureCell:
    figure = BY_NAME[name]
    if found is None:
        return {"value": "–", "interval": ""}
    interval = "" if found["low"] is None else pictures.interval_words(figure, found)
    return {"value": pictures.shown(figure, found["value"]), "interval": interval}


def verdicts(summary: Summary) -> list[dict[str, str]]:
    """Return the throughput of each target relative to the first target, as texts for the sentences of a template.
    Keys: label, baseline, kind (of verdict), times (the ratio), and, if the ratio has an interval, low, high, and sure
    (its confidence).
    """
    said = []
    for ratio in summary.get("ratios", []):
        found = ratio["figures"].get("throughput_rps")
        if found is None:
            continue
        words = {"label": ratio["label"], "baseline": ratio["baseline"], "kind": found["verdict"]}
        words["times"] = pictures.number(found["value"], 2)
        if found["low"] is not None:
            words["low"], words["high"] = pictures.number(found["low"], 2), pictures.number(found["high"], 2)
            words["sure"] = pictures.sure(found)
        said.append(words)
    return said


def compared(runs: list[Run]) -> dict[str, object]:
    """Return the template context of the page that compares several runs: the targets of all runs side by side, each
    labeled with the time of its run, and the differences between the runs.
    """
    targets: list[TargetSummary] = []
    for run, name in zip(runs, _told_apart(runs), strict=True):
        own: list[TargetSummary] = run.summary["targets"]
        targets += [{**target, "label": f"{target['label']}, {name}"} for target in own]
    drawn: list[Chart | None] = [pictures.bars(targets, name) for name in _BARS]
    drawn.insert(1, pictures.curve(targets[:8]))
    ladder = [(run.parameters["arguments"].get("concurrency") or 1, run.summary) for run in runs]
    drawn.insert(0, pictures.by_concurrency(ladder))
    first = selectors.measured_rounds(runs[0])
    return {
        "runs": runs,
        "labels": [target["label"] for target in targets],
        "figures": figure_rows(targets),
        "charts": [chart for chart in drawn if chart is not None],
        "differences": differences(runs),
        "against": [_against(first, run) for run in runs[1:]],
    }


def _against(first: list[Measured], run: Run) -> dict[str, object]:
    """Return the template context that compares a run with the rounds `first` of the first run: {"run", "table"}.
    The table lists the changes of the targets that both runs have. If the runs share no target, "table" is None.
    """
    found = run_changes.changes(selectors.measured_rounds(run), first, {})
    return {"run": run, "table": change_texts.table(found) if found else None}


def _told_apart(runs: list[Run]) -> list[str]:
    """Return a distinct name for each run: its end time. Runs that ended in the same minute are numbered."""
    times = [run.finished_at.strftime("%Y-%m-%d %H:%M") if run.finished_at else "" for run in runs]
    return [
        f"{when} ({times[:place].count(when) + 1})" if times.count(when) > 1 else when
        for place, when in enumerate(times)
    ]


def differences(runs: list[Run]) -> list[str]:
    """Describe differences in the parameters and hosts of the runs, which can be the reason for different figures."""
    first, found = runs[0], []
    for run in runs[1:]:
        for key, value in first.parameters.items():
            other = run.parameters.get(key)
            if key != "name" and value != other:
                found.append(f"{run.title}: {key.replace('_', ' ')} is {_words(other)}, not {_words(value)}.")
        mine, theirs = _machines(first), _machines(run)
        if mine != theirs:
            found.append(f"{run.title}: Paddock measured this run on other hosts, or after the hosts changed.")
    return found


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items() if item is not None)
    return ", ".join(value) if isinstance(value, list) else str(value)


def _machines(run: Run) -> dict[str, object]:
    keys = ("kernel", "cpu_model", "cpus", "memory_bytes", "tools")
    return {host: {key: found.get(key) for key in keys} for host, found in run.fingerprint.get("hosts", {}).items()}


def argument_words(run: Run) -> list[str]:
    """Return those arguments of the run's load that have a value, in words. Labels and order are as in the form of a
    scenario.
    """
    labels = {field.name: field.label for field in TOOLS[Tool(run.parameters["tool"])].fields}
    arguments = run.parameters["arguments"]  # PostgreSQL does not keep the key order of JSON
    names = [*labels, *sorted(arguments.keys() - labels.keys())]
    given = {name: value for name in names if (value := arguments.get(name)) not in (None, False, "")}
    return [
        labels.get(name, name) if value is True else f"{labels.get(name, name)} {value}"
        for name, value in given.items()
    ]
