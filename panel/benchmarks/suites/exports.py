"""Exports of a suite run: JSON with every run, the tables as CSV and text, and the page as HTML."""

from __future__ import annotations

import csv
import io

from django.template.loader import render_to_string

from panel.benchmarks.models import SuiteRun
from panel.benchmarks.runs import exports
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites.tables import Cell, Table
from panel.core import cells as spreadsheet
from panel.core.styles import inline_styles

FORMAT = 1
_STYLES = ("tokens", "base", "components", "benchmarks")


def file_name(row: SuiteRun) -> str:
    """Return the name of an export without extension: suite, preset (`full` or `short`), `-part` if only a part of the
    suite was run, and the start time (UTC).
    """
    part = "-part" if row.choice.is_part else ""
    return f"{row.suite}-{row.preset}{part}-{row.created_at:%Y%m%d-%H%M}"


def suite_json(row: SuiteRun) -> dict[str, object]:
    """Return a suite run as JSON: its tables with the published figures, and the run of each case with raw output and
    samples.
    """
    return {
        "format": FORMAT,
        "uuid": str(row.uuid),
        "suite": row.suite,
        "preset": row.preset,
        "shortened": row.preset != "full",
        "part": row.chosen or None,
        "application": suite_results.described(row)["application"] or None,
        "title": row.title,
        "host": row.host_name,
        "load_from": row.choice.load_from or None,
        "status": row.status,
        "left_out": row.left_out,
        "started_at": row.created_at.isoformat(),
        "finished_at": row.finished_at.isoformat() if row.finished_at else None,
        "published": suite_results.described(row)["source"],
        "tables": [table_json(table) for table in suite_results.tables(row)],
        "plan": row.plan,
        "runs": [exports.run_json(run) for run in row.runs.order_by("case")],
    }


def suite_html(row: SuiteRun) -> str:
    """Return the result page as one HTML file with styles and charts. The file has no scripts and loads nothing."""
    context = {"row": row, "styles": inline_styles(_STYLES), **suite_results.result(row)}
    return render_to_string("benchmarks/suite_report.html", context)


def table_json(table: Table) -> dict[str, object]:
    rows = [[_cell_json(cell) for cell in cells] for cells in table.rows]
    return {"name": table.name, "title": table.title, "note": table.note, "head": table.head, "rows": rows}


def _cell_json(cell: Cell) -> dict[str, object]:
    return {"text": cell.text, "value": cell.value, "detail": cell.detail, "published": cell.published}


def suite_csv(row: SuiteRun) -> str:
    """Return the tables as CSV with one row for each cell: table, row, column, value, text, interval or remark,
    published (0 or 1).
    """
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(["table", "row", "column", "value", "text", "detail", "published"])
    for table in suite_results.tables(row):
        for cells in table.rows:
            name = ", ".join(cell.text for cell in cells[: table.names])
            for head, cell in zip(table.head[table.names :], cells[table.names :], strict=True):
                value = "" if cell.value is None else cell.value
                found = [table.title, name, head, value, cell.text, cell.detail, int(cell.published)]
                writer.writerow(spreadsheet.row(found))
    return sink.getvalue()


def text(tables: list[Table]) -> str:
    """Format the tables as plain text for a terminal."""
    return "\n\n".join(_text(table) for table in tables)


def _text(table: Table) -> str:
    rows = [table.head, *([_words(cell) for cell in cells] for cells in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
    lines = ["  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([table.title, table.note, lines[0], "-" * len(lines[0]), *lines[1:]])


def _words(cell: Cell) -> str:
    return f"{cell.text} ({cell.detail})" if cell.detail else cell.text
