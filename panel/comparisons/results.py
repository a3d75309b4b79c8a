"""Contents of comparison pages: progress, the figures of each web server relative to the site's web server before the
comparison, and the gain of a move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from django.utils.translation import gettext as _

from panel.benchmarks.charts import pictures
from panel.benchmarks.models import Run, RunStatus
from panel.benchmarks.records import FigureEstimate, FigureRatio, TargetSummary
from panel.benchmarks.runs import results as runs
from panel.benchmarks.statistics.intervals import Verdict
from panel.benchmarks.statistics.summary import BY_NAME, Figure
from panel.benchmarks.tools.arguments import method_and_path
from panel.comparisons.models import Comparison, ComparisonPhase, Contender, ContenderStatus
from panel.core.jobs import JobStatus
from panel.deployments.models import DeploymentStatus

SHOWN = ("throughput_rps", "latency_p50", "latency_p99", "cpu_per_1000", "server_rss", "application_rss")
MEASURED = (RunStatus.FINISHED, RunStatus.INVALID)


@dataclass(frozen=True)
class Cell:
    """One cell of the result table: a figure of one web server.
    `ratio` compares the figure, in words, with the figure of the site's own web server. "" in the cells of the own web
    server, and for figures that are not compared.
    """

    label: str  # of its column
    value: str
    interval: str = ""
    ratio: str = ""


@dataclass(frozen=True)
class Row:
    """One web server in the result table. `is_now`: whether the site uses this web server now.
    `cells` are the web server's figures in the order of `columns`; empty if the web server was not measured.
    """

    contender: Contender
    cells: list[Cell]
    is_now: bool
    may_switch: bool


def measured(comparison: Comparison) -> Run | None:
    return comparison.run if comparison.run is not None and comparison.run.status in MEASURED else None


def columns(comparison: Comparison) -> list[Figure]:
    """Return the columns of the result table: the figures that were measured for at least one web server."""
    run = measured(comparison)
    found = {name for target in (run.summary.get("targets", []) if run else []) for name in target["figures"]}
    return [BY_NAME[name] for name in SHOWN if name in found]


def rows(comparison: Comparison) -> list[Row]:
    targets, ratios = by_contender(comparison)
    shown = columns(comparison)
    now = comparison.site.web_server_id if comparison.site else None
    made = []
    for contender in comparison.contenders.all():
        target, ratio = targets.get(contender.pk), ratios.get(contender.pk, {})
        figures = target["figures"] if target else {}
        cells = [_cell(figure, figures.get(figure.name), ratio.get(figure.name)) for figure in shown]
        is_now = contender.web_server_id is not None and contender.web_server_id == now
        may_switch = comparison.is_finished and contender.status == ContenderStatus.SAME and not is_now
        made.append(Row(contender, cells if target else [], is_now, may_switch and contender.web_server_id is not None))
    return made


def by_contender(comparison: Comparison) -> tuple[dict[int, TargetSummary], dict[int, dict[str, FigureRatio]]]:
    """Return the measured figures and the ratios of a comparison, as two dictionaries by the primary key of Contender.
    Both are empty without a result. Only web servers with equal responses were measured, as the targets of the run, in
    the order of the contenders.
    """
    run = measured(comparison)
    if run is None:
        return {}, {}
    alike = [row for row in comparison.contenders.all() if row.status == ContenderStatus.SAME]
    targets = {alike[target["position"]].pk: target for target in run.summary["targets"]}
    return targets, {alike[ratio["position"]].pk: ratio["figures"] for ratio in run.summary["ratios"]}


def _cell(figure: Figure, found: FigureEstimate | None, ratio: FigureRatio | None) -> Cell:
    if found is None:
        return Cell(figure.label, "–")
    interval = "" if found["low"] is None else pictures.interval_words(figure, found)
    return Cell(figure.label, pictures.shown(figure, found["value"]), interval, _ratio_words(ratio) if ratio else "")


def _ratio_words(ratio: FigureRatio) -> str:
    if ratio["verdict"] == Verdict.TOO_FEW:
        return _("too few rounds to compare")
    words = {"times": pictures.number(ratio["value"], 2)}
    words |= {"low": pictures.number(ratio["low"], 2), "high": pictures.number(ratio["high"], 2)}
    if ratio["verdict"] == Verdict.NO_DIFFERENCE:
        return _("no significant difference (%(low)s× to %(high)s×)") % words
    return _("%(times)s× (%(low)s× to %(high)s×)") % words


# --- sentences ---


def advice(comparison: Comparison) -> str:
    """Name the web server with the highest throughput in one sentence, or say that none is significantly faster than
    the site's own web server. "" without a valid measurement.
    """
    if comparison.run is None or comparison.run.status != RunStatus.FINISHED:
        return ""
    first, *others = list(comparison.contenders.all())
    _targets, ratios = by_contender(comparison)
    found = [(ratios[row.pk]["throughput_rps"], row) for row in others if "throughput_rps" in ratios.get(row.pk, {})]
    faster = [(ratio, row) for ratio, row in found if ratio["verdict"] == Verdict.HIGHER]
    if not faster:
        words = _("No web server was significantly faster than %(own)s under this load.")
        return words % {"own": first.label}
    ratio, best = max(faster, key=lambda item: item[0]["value"])
    return _(
        "%(best)s handled %(times)s× as many requests as %(own)s (%(sure)s confidence interval %(low)s to %(high)s)."
    ) % {
        "best": best.label,
        "own": first.label,
        "times": pictures.number(ratio["value"], 2),
        "low": pictures.number(ratio["low"], 2),
        "high": pictures.number(ratio["high"], 2),
        "sure": pictures.sure(ratio),
    }


def gain(comparison: Comparison) -> list[str]:
    """Describe the effect of the site's move to its current web server, as measured by the comparison: one line for
    each figure. Empty if the site was not moved, or without a valid measurement.
    """
    if comparison.run is None or comparison.run.status != RunStatus.FINISHED:
        return []
    chosen = next((row for row in rows(comparison) if row.is_now and row.contender.position), None)
    if chosen is None:
        return []
    named = zip(columns(comparison), chosen.cells, strict=False)
    return [f"{figure.label}: {cell.ratio}" for figure, cell in named if cell.ratio]


# --- progress ---


class Step(TypedDict):
    label: str
    status: str


def steps(comparison: Comparison) -> list[Step]:
    """Return the phases of a comparison with their status, in the format of the steps of a deployment."""
    order = list(ComparisonPhase)
    at = order.index(ComparisonPhase(comparison.phase))
    return [
        {"label": str(phase.label), "status": _step_status(comparison, index, at)} for index, phase in enumerate(order)
    ]


def _step_status(comparison: Comparison, index: int, at: int) -> str:
    if not comparison.outcome and comparison.status != JobStatus.RUNNING:
        return "queued" if comparison.status == JobStatus.QUEUED else "skipped"
    if index == len(ComparisonPhase) - 1 and at == index:
        return "succeeded" if comparison.is_finished else "running"
    if not comparison.stopped_in:
        return "succeeded" if index < at else "running" if index == at else "queued"
    stopped = list(ComparisonPhase).index(ComparisonPhase(comparison.stopped_in))
    return "succeeded" if index < stopped else comparison.outcome if index == stopped else "skipped"


def course(comparison: Comparison) -> dict[str, Any]:
    """Return the template context of the part of a comparison's page that is updated while the comparison runs."""
    context: dict[str, Any] = {
        "comparison": comparison,
        "contenders": comparison.contenders.all(),
        "steps": steps(comparison),
    }
    if comparison.run is not None and not comparison.run.is_ended:
        context |= {"run": comparison.run, **runs.course(comparison.run)}
    return context


def result(comparison: Comparison) -> dict[str, object]:
    """Return the template context of a comparison's page after the comparison has ended."""
    run = measured(comparison)
    context = runs.result(run) if run else {}
    return context | {
        "run": run,
        "columns": columns(comparison),
        "servers": rows(comparison),
        "advice": advice(comparison),
        "gain": gain(comparison),
        "way_back": way_back(comparison),
    }


def way_back(comparison: Comparison) -> Contender | None:
    """Return the web server that the site had before the move by this comparison; None if the site was not moved, has
    moved back, or the web server no longer exists.
    """
    first = next(iter(comparison.contenders.all()), None)
    done = comparison.switch is not None and comparison.switch.status == DeploymentStatus.SUCCEEDED
    now = comparison.site.web_server_id if comparison.site else None
    moved = done and first is not None and first.web_server_id is not None and first.web_server_id != now
    return first if moved else None


class Share(NamedTuple):
    method: str
    path: str
    percent: int


def shares(paths: Sequence[str]) -> list[Share]:
    """Return the distinct requests of a load with their share in percent, the most frequent first."""
    counted = {path: paths.count(path) for path in dict.fromkeys(paths)}
    found = (Share(*method_and_path(path), round(100 * count / len(paths))) for path, count in counted.items())
    return sorted(found, key=lambda share: -share.percent)
