"""Writer of a report as PDF (A4), laid out by ReportLab. Charts are drawn by Vega-Lite as on pages, at about 270 dpi.
The font is DejaVu Sans if installed (Debian: fonts-dejavu-core), else ReportLab's Vera, which has only western European
letters.
"""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import reportlab
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import (
    CondPageBreak,
    Image,
    KeepTogether,
    ListFlowable,
    LongTable,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    TableStyle,
)

from panel.core import charts
from panel.reports.document import Cell, Document, Picture, Section, Table

_DEJAVU = Path("/usr/share/fonts/truetype/dejavu")
_INK, _SOFT, _LINE, _WASH = "#1b1f2a", "#535b6b", "#e2e5ea", "#f1f3f6"
_SCALE = 3.0
_LEAST_BELOW = 90.0  # points: the height of a title, a table's head and two rows
_MOST_ROWS = 400  # per table; other formats contain all rows
_MOST_BEHIND = 40
_TONES = {"worse": "#b3261e", "failed": "#b3261e", "invalid": "#8a5300", "unsure": "#8a5300", "better": "#1b7340"}


@lru_cache(maxsize=1)
def _fonts() -> tuple[str, str]:
    """Register the fonts of the PDF; return the names of the regular and the bold font."""
    own = Path(reportlab.__file__).parent / "fonts"
    pairs = ((_DEJAVU / "DejaVuSans.ttf", _DEJAVU / "DejaVuSans-Bold.ttf"), (own / "Vera.ttf", own / "VeraBd.ttf"))
    plain, bold = next(pair for pair in pairs if all(path.exists() for path in pair))
    pdfmetrics.registerFont(TTFont("Report", str(plain)))
    pdfmetrics.registerFont(TTFont("Report-Bold", str(bold)))
    pdfmetrics.registerFontFamily("Report", "Report", "Report-Bold", "Report", "Report-Bold")
    return "Report", "Report-Bold"


class _Sheet:
    """Page size, styles and helpers for the elements of one PDF document."""

    def __init__(self) -> None:
        self.size, self.margin = A4, 16 * mm
        self.width = A4[0] - 2 * self.margin
        plain, bold = _fonts()
        body = ParagraphStyle("body", fontName=plain, fontSize=9, leading=13, textColor=_INK, splitLongWords=True)
        self.body = body
        self.soft = ParagraphStyle("soft", body, textColor=_SOFT, fontSize=8, leading=11)
        self.title = ParagraphStyle("title", body, fontName=bold, fontSize=16, leading=20, spaceAfter=4)
        self.head = ParagraphStyle("head", body, fontName=bold, fontSize=11, leading=15, spaceBefore=12, spaceAfter=4)
        self.top = ParagraphStyle("top", body, fontName=bold, fontSize=10.5, leading=15, spaceBefore=8, spaceAfter=4)
        self.cell = ParagraphStyle("cell", body, fontSize=7.5, leading=9.5)
        self.cell_head = ParagraphStyle("cell_head", self.cell, fontName=bold)

    def words(self, text: str, style: Any = None) -> Any:
        return Paragraph(escape(text), style or self.body)

    def items(self, title: str, lines: list[str]) -> list[Any]:
        if not lines:
            return []
        rows = [self.words(line) for line in lines]
        return [self.words(title, self.head), ListFlowable(rows, bulletType="bullet", start="•", leftIndent=12)]


def write(document: Document) -> bytes:
    sheet, sink = _Sheet(), io.BytesIO()
    template = SimpleDocTemplate(
        sink,
        pagesize=sheet.size,
        leftMargin=sheet.margin,
        rightMargin=sheet.margin,
        topMargin=sheet.margin,
        bottomMargin=sheet.margin,
        title=document.title,
        author="Paddock",
        lang="en",
    )
    parts = [*_top(sheet, document), *(part for section in document.sections for part in _section(sheet, section))]
    parts += _facts(sheet, document)

    def foot(canvas: Any, page: Any) -> None:
        canvas.setFont(_fonts()[0], 7)
        canvas.setFillColor(_SOFT)
        canvas.drawString(sheet.margin, sheet.margin / 2, document.title[:110])
        canvas.drawRightString(sheet.size[0] - sheet.margin, sheet.margin / 2, str(page.page))

    template.build(parts, onFirstPage=foot, onLaterPages=foot)
    return sink.getvalue()


def _top(sheet: _Sheet, document: Document) -> list[Any]:
    tone = ParagraphStyle("tone", sheet.top, textColor=_TONES.get(document.outcome, _INK))
    lead = " · ".join(part for part in (document.made_at, document.link) if part)
    return [
        sheet.words(document.title, sheet.title),
        sheet.words(lead, sheet.soft),
        sheet.words(document.headline, tone),
        *sheet.items("Changes", document.changes),
        *sheet.items("Other differences since the previous run", document.around),
        *sheet.items("About this schedule", document.notes),
        *sheet.items("Read before you rely on these figures", document.warnings),
    ]


def _section(sheet: _Sheet, section: Section) -> list[Any]:
    # Keep a title on the same page as the beginning of its section.
    parts: list[Any] = [CondPageBreak(_LEAST_BELOW), sheet.words(section.title, sheet.head)]
    parts += [sheet.words(line) for line in section.remarks]
    for table in section.tables:
        parts += _table(sheet, table)
    for picture in section.pictures:
        parts += _picture(sheet, picture)
    return parts


def _table(sheet: _Sheet, table: Table) -> list[Any]:
    head = [sheet.words(word, sheet.cell_head) for word in table.head]
    rows = [[_cell(sheet, cell) for cell in row] for row in table.rows[:_MOST_ROWS]]
    first = 2.0 if len(table.head) > 2 else 1.0
    unit = sheet.width / (first + len(table.head) - 1)
    widths = [first * unit, *[unit] * (len(table.head) - 1)]
    looks = TableStyle(
        [
            ("BACKGROUND", (0, 0), (-1, 0), _WASH),
            ("LINEBELOW", (0, 0), (-1, -1), 0.4, _LINE),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            *((side, (0, 0), (-1, -1), 3) for side in ("LEFTPADDING", "RIGHTPADDING", "TOPPADDING", "BOTTOMPADDING")),
        ]
    )
    left_out = len(table.rows) - len(rows)
    more = f" {left_out} more rows are in the other formats of this report." if left_out > 0 else ""
    return [
        LongTable([head, *rows], colWidths=widths, repeatRows=1, style=looks),
        Spacer(1, 3),
        sheet.words(f"{table.note}{more}", sheet.soft),
    ]


def _cell(sheet: _Sheet, cell: Cell) -> Any:
    detail = f'<br/><font color="{_SOFT}" size="6.5">{escape(cell.detail)}</font>' if cell.detail else ""
    return Paragraph(f"{escape(cell.text)}{detail}", sheet.cell)


def _picture(sheet: _Sheet, picture: Picture) -> list[Any]:
    drawn = Image(io.BytesIO(charts.png(picture.spec, _SCALE)))
    factor = min(sheet.width / drawn.imageWidth, (sheet.size[1] - 4 * sheet.margin) / drawn.imageHeight)
    drawn.drawWidth, drawn.drawHeight = drawn.imageWidth * factor, drawn.imageHeight * factor
    words = [sheet.words(picture.title, sheet.head), drawn, sheet.words(picture.label, sheet.soft), Spacer(1, 6)]
    return [KeepTogether(words), *_behind(sheet, picture)]


def _behind(sheet: _Sheet, picture: Picture) -> list[Any]:
    """Return the PDF elements of a table with the figures of a chart; [] for long series of samples."""
    if len(picture.rows) > _MOST_BEHIND:
        return []
    return _table(sheet, Table("", picture.head, [[Cell(text) for text in row] for row in picture.rows]))


def _facts(sheet: _Sheet, document: Document) -> list[Any]:
    if not document.facts:
        return []
    rows = [[Cell(name), Cell(words)] for name, words in document.facts]
    return [sheet.words("Method", sheet.head), *_table(sheet, Table("", ["Setting", "Value"], rows))]
