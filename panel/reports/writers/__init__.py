"""Writers of a report's formats: one module for each format, all from the same Document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panel.reports.choices import Form
from panel.reports.document import Document
from panel.reports.writers import html, spreadsheet, text


@dataclass(frozen=True)
class Writer:
    content_type: str
    write: Callable[[Document], bytes]


def _pdf(document: Document) -> bytes:
    from panel.reports.writers import paper  # ReportLab: only a process that writes a PDF loads it

    return paper.write(document)


WRITERS: dict[str, Writer] = {
    Form.HTML: Writer("text/html; charset=utf-8", html.write),
    Form.PDF: Writer("application/pdf", _pdf),
    Form.ODS: Writer("application/vnd.oasis.opendocument.spreadsheet", spreadsheet.write),
    Form.CSV: Writer("text/csv; charset=utf-8", text.write_csv),
    Form.JSON: Writer("application/json", text.write_json),
}
