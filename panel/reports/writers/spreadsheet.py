"""Writer of a report as OpenDocument spreadsheet: a sheet for its headline, and one for each table.
Every text is a string cell, so no program evaluates the text as a formula. The apostrophe that protects texts in CSV
would be visible here and is not used. Characters that XML cannot represent are removed.
"""

from __future__ import annotations

import io
import re

import odswriter

from panel.reports.document import Cell, Document, Table
from panel.reports.writers.text import top_rows

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_NAMES = re.compile(r"[\[\]*?:/\\']")
_LONGEST_NAME = 31  # limit of other programs


def write(document: Document) -> bytes:
    sink = io.BytesIO()
    with odswriter.writer(sink) as book:
        top = book.new_sheet("Report")
        for name, words in top_rows(document):
            top.writerow([_text(name), _text(words)])
        taken = {"Report"}
        for section, table in document.tables():
            sheet = book.new_sheet(_name(section.title, taken))
            for row in _rows(table):
                sheet.writerow(row)
    return sink.getvalue()


def _rows(table: Table) -> list[list[str | float | None]]:
    """Return the rows of a table with values and intervals in separate columns, for calculations."""
    head: list[str | float | None] = [_text(word) for word in table.head[: table.names]]
    for word in table.head[table.names :]:
        head += [_text(word), _text(f"{word}: interval or remark")]
    rows = [head]
    for row in table.rows:
        found: list[str | float | None] = [_text(cell.text) for cell in row[: table.names]]
        for cell in row[table.names :]:
            found += [_value(cell), _text(cell.detail) or None]
        rows.append(found)
    return [*rows, [None], [_text(table.note)]]


def _value(cell: Cell) -> str | float:
    return _text(cell.text) if cell.value is None else cell.value


def _text(words: str) -> str:
    return _NOT_XML.sub("", words)


def _name(title: str, taken: set[str]) -> str:
    """Return a unique name for a sheet, made from `title`, and add it to `taken`, the names of the other sheets.
    Programs reject files in which two sheets have one name.
    """
    base = _NOT_IN_NAMES.sub(" ", _text(title)).strip()[:_LONGEST_NAME] or "Table"
    name, number = base, 2
    while name in taken:
        suffix = f" {number}"
        name, number = base[: _LONGEST_NAME - len(suffix)] + suffix, number + 1
    taken.add(name)
    return name
