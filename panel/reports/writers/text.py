"""Writers of a report as CSV (a row for each cell of its tables) and as JSON (complete)."""

from __future__ import annotations

import csv
import io
import json

from panel.core import cells
from panel.reports.document import Document, to_json

COLUMNS = ("table", "row", "column", "value", "text", "detail")


def write_csv(document: Document) -> bytes:
    """Return the report as CSV: first a table with the report's headline, then its other tables."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    writer.writerow(COLUMNS)
    for name, words in top_rows(document):
        writer.writerow(cells.row(["Report", name, "", "", words, ""]))
    for section, table in document.tables():
        title = table.title if table.title == section.title else f"{section.title}: {table.title}"
        for row in table.rows:
            name = ", ".join(cell.text for cell in row[: table.names])
            for head, cell in zip(table.head[table.names :], row[table.names :], strict=True):
                writer.writerow(cells.row([title, name, head, cell.value, cell.text, cell.detail]))
    return sink.getvalue().encode()


def top_rows(document: Document) -> list[tuple[str, str]]:
    rows = [("Title", document.title), ("Measured", document.made_at), ("Outcome", document.headline)]
    rows += [("Change", words) for words in document.changes]
    rows += [("Other differences", words) for words in document.around]
    rows += [("Note", words) for words in document.notes]
    return rows + [("Warning", words) for words in document.warnings]


def write_json(document: Document) -> bytes:
    return json.dumps(to_json(document), indent=1, ensure_ascii=False).encode()
