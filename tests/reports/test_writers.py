"""The formats of a report: equal content, self-contained, and without formulas that run."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panel.benchmarks.models import Run, RunTarget
from panel.core import cells
from panel.reports import building
from panel.reports.choices import Form
from panel.reports.document import Cell, Document, Picture, Section, Table, from_json, to_json
from panel.reports.writers import WRITERS
from tests.reports.conftest import History

TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}p"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
FORMULAS = ["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1+1", "\r=1+1", " =1+1", "=cmd|' /C calc'!A0", "＝1+1"]


@pytest.fixture
def document(history: History) -> Document:
    history.runs((1.0, 1.01, 0.99, 1.0))
    return building.run_document(history.run(0.8), ["Missed: 2026-01-01 02:00 UTC. The panel did not run."])


def written(document: Document, form: str) -> bytes:
    return WRITERS[form].write(document)


def sheets(content: bytes) -> dict[str, list[ElementTree.Element]]:
    """The cells of each sheet."""
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        assert book.testzip() is None and book.namelist()[0] == "mimetype"
        root = ElementTree.fromstring(book.read("content.xml"))
    return {
        sheet.get(f"{TABLE}name", ""): list(sheet.iter(f"{TABLE}table-cell")) for sheet in root.iter(f"{TABLE}table")
    }


def test_document_survives_database_round_trip(document: Document) -> None:
    assert from_json(json.loads(json.dumps(to_json(document)))) == document
    with pytest.raises(ValueError, match="format 99"):
        from_json({**to_json(document), "format": 99})


def test_html_report_is_self_contained(document: Document) -> None:
    page = written(document, Form.HTML).decode()
    assert document.headline in page and "The panel did not run." in page
    assert page.count("<svg") >= 4 and "@page" in page and "light-dark(" in page
    assert not re.search(
        r"<script|<link|<img|\son\w+=|url\((?!#)|@import|(?:src|href)=\"(?!#)", page.replace("xlink:", "")
    )


def test_pdf_report_has_pages_images_and_title(document: Document) -> None:
    paper = written(document, Form.PDF)
    assert paper.startswith(b"%PDF-1.") and paper.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type /Page\b", paper)) >= 2
    assert len(re.findall(rb"/Subtype /Image", paper)) >= 4
    assert b"Quick" in paper and b"/Lang" in paper


def test_pdf_report_accepts_any_text_and_length() -> None:
    long = Table("T", ["Name", "Value"], [[Cell("x" * 400), Cell("ü<b>&", 1.0, "d")] for _ in range(500)])
    document = Document("Отчёт <b>&", "now", "worse", "A & B < C", sections=[Section("S", [long])])
    assert written(document, Form.PDF).startswith(b"%PDF-")


def test_ods_report_has_sheet_per_table_with_numeric_cells(document: Document) -> None:
    found = sheets(written(document, Form.ODS))
    assert list(found) == ["Report", "Figures", "Since the previous run"]
    numbers = [cell.get(f"{OFFICE}value") for cell in found["Figures"] if cell.get(f"{OFFICE}value-type") == "float"]
    throughput = document.sections[0].tables[0].rows[0][1].value
    assert str(throughput) in numbers
    assert document.headline in [cell.findtext(TEXT) for cell in found["Report"]]


def test_csv_and_json_reports_contain_every_figure(document: Document) -> None:
    rows = list(csv.DictReader(io.StringIO(written(document, Form.CSV).decode())))
    throughput = document.sections[0].tables[0].rows[0][1]
    assert {"Report", "Figures", "Since the previous run"} == {row["table"] for row in rows}
    assert any(
        row["text"] == throughput.text and float(row["value"]) == throughput.value for row in rows if row["value"]
    )
    assert json.loads(written(document, Form.JSON)) == json.loads(json.dumps(to_json(document)))


@pytest.mark.parametrize("payload", FORMULAS)
def test_report_cells_never_become_formulas(payload: str) -> None:
    """In each place with foreign text: titles of sites and runs, labels, tool errors."""
    table = Table(payload, ["Figure", payload], [[Cell(payload), Cell(payload, None, payload)]], payload)
    document = Document(payload, payload, "worse", payload, "", [payload], [payload], [payload], [payload])
    document.sections.append(Section(payload, [table], [Picture("n", payload, payload, {}, [payload], [[payload]])]))
    rows = csv.reader(io.StringIO(written(document, Form.CSV).decode(), newline=""))
    for row in rows:
        for cell in row:
            assert not cell.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "＝")), cell
    for found in sheets(written(document, Form.ODS)).values():
        for item in found:
            assert item.get(f"{TABLE}formula") is None
            assert item.get(f"{OFFICE}value-type") in (None, "string")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20), st.floats(allow_nan=False, allow_infinity=False))
def test_report_formats_preserve_text_and_numbers(text: str, value: float) -> None:
    kept = cells.cell(text)
    assert kept in (text, f"'{text}") and cells.cell(value) == value
    document = Document(
        text, "", "first", text, sections=[Section("S", [Table("S", ["A", "B"], [[Cell(text), Cell("x", value)]])])]
    )
    found = sheets(written(document, Form.ODS))["S"]
    assert float(next(item.get(f"{OFFICE}value", "") for item in found if item.get(f"{OFFICE}value"))) == value


def test_run_exports_neutralize_formulas_in_labels(history: History) -> None:
    from panel.benchmarks.runs.exports import run_csv

    run = history.run()
    RunTarget.objects.filter(run=run).update(label="=HYPERLINK(1)")
    rows = list(csv.reader(io.StringIO(run_csv(Run.objects.get(pk=run.pk)))))
    assert {row[0] for row in rows[1:]} == {"'=HYPERLINK(1)"}
