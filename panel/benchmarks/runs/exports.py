"""Exports of a run: JSON with all stored data, CSV with one row for each round."""

from __future__ import annotations

import csv
import io

from panel.benchmarks import selectors
from panel.benchmarks.models import Round, Run
from panel.benchmarks.statistics.summary import FIGURES
from panel.core import cells

FORMAT = 1


def run_json(run: Run) -> dict[str, object]:
    """Return the run as JSON, including raw samples and output, so that every figure can be computed again."""
    return {
        "format": FORMAT,
        "uuid": str(run.uuid),
        "title": run.title,
        "status": run.status,
        "reasons": run.reasons,
        "error": run.error,
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "parameters": run.parameters,
        "fingerprint": run.fingerprint,
        "summary": run.summary,
        "targets": [
            {"position": row.position, "label": row.label, "engine": row.engine, "base_url": row.base_url}
            for row in run.targets.all()
        ],
        "rounds": [_round(row) for row in selectors.rounds_of(run)],
    }


def _round(row: Round) -> dict[str, object]:
    return {
        "target": row.target.position,
        "number": row.number,
        "warm_up": row.number == 0,
        "argv": row.argv,
        "exit_code": row.exit_code,
        "started_at": row.started_at.isoformat() if row.started_at else None,
        "finished_at": row.finished_at.isoformat() if row.finished_at else None,
        "error": row.error,
        "metrics": row.metrics,
        "samples": row.samples,
        "output": row.output,
    }


def run_csv(run: Run) -> str:
    """Return the rounds of a run as CSV. Columns: target, engine, round, warm_up, requests, failed, non2xx, duration,
    then the figures with their units.
    """
    sink = io.StringIO()
    writer = csv.writer(sink)
    units = [f"{figure.name} ({figure.unit})" if figure.unit else figure.name for figure in FIGURES]
    writer.writerow(["target", "engine", "round", "warm_up", "requests", "failed", "non2xx", "duration (s)", *units])
    for row in selectors.rounds_of(run).defer("output"):
        measured = selectors.measured_of(row)
        metrics = measured.metrics
        counts = [metrics.requests, metrics.failed, metrics.non2xx, metrics.duration_s] if metrics else ["", "", "", ""]
        figures = [figure.of(measured) for figure in FIGURES]
        known = ["" if value is None else value for value in figures]
        mine = [row.target.label, row.target.engine, row.number, int(row.number == 0)]
        writer.writerow(cells.row([*mine, *counts, *known]))
    return sink.getvalue()
