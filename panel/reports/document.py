"""Content of a report as plain data, from which all its formats are made. Stored as JSON with the report.
A document refers to no database rows, so it can be shown after its run, site and host are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from panel.core.charts import Chart
from panel.core.charts import Table as ChartTable

FORMAT = 1


@dataclass(frozen=True)
class Cell:
    """One table cell: `text` for people, `value` for programs; `detail` is an interval or a remark."""

    text: str
    value: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class Table:
    """A table of a report. `names` is the number of cells that identify a row, at the start of each row."""

    title: str
    head: list[str]
    rows: list[list[Cell]]
    note: str = ""
    names: int = 1


@dataclass(frozen=True)
class Picture:
    """A chart: a Vega-Lite specification, a description for screen readers, and a table of its figures."""

    name: str
    title: str
    label: str
    spec: dict[str, Any]
    head: list[str]
    rows: list[list[str]]

    @property
    def chart(self) -> Chart:
        return Chart(self.name, self.title, self.label, self.spec, ChartTable(self.head, self.rows))


@dataclass(frozen=True)
class Section:
    title: str
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Document:
    """Content of a report, which compares a run with the previous run.

    `since` is the name of the previous run, and `changes` are sentences about changes of figures since the previous
    run. `around` are other differences between the two runs. `notes` are remarks on the schedule's dates, for example
    on skipped dates. `warnings` are the reasons why figures are invalid.
    """

    title: str
    made_at: str  # ISO 8601, UTC
    outcome: str  # choices.Outcome
    headline: str
    since: str = ""
    changes: list[str] = field(default_factory=list)
    around: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    facts: list[list[str]] = field(default_factory=list)  # [name, text]
    link: str = ""

    def tables(self) -> Iterator[tuple[Section, Table]]:
        for section in self.sections:
            for table in section.tables:
                yield section, table


def picture(chart: Chart) -> Picture:
    return Picture(chart.name, chart.title, chart.label, chart.spec, chart.table.head, chart.table.rows)


def to_json(document: Document) -> dict[str, object]:
    return {"format": FORMAT, **asdict(document)}


def from_json(data: dict[str, Any]) -> Document:
    """Convert JSON of `to_json` back to a document. ValueError for another format version."""
    if data.get("format") != FORMAT:
        raise ValueError(f"report format {data.get('format')} is not supported; this panel reads format {FORMAT}")
    values = {key: value for key, value in data.items() if key != "format"}
    return Document(**{**values, "sections": [_section(part) for part in values["sections"]]})


def _section(data: dict[str, Any]) -> Section:
    tables = [
        Table(**{**table, "rows": [[Cell(**cell) for cell in row] for row in table["rows"]]})
        for table in data["tables"]
    ]
    return Section(data["title"], tables, [Picture(**item) for item in data["pictures"]], data["remarks"])
