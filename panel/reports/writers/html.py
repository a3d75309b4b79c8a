"""Writer of a report as one HTML file with styles and charts, without scripts and external resources."""

from __future__ import annotations

from django.template.loader import render_to_string

from panel.core.styles import inline_styles
from panel.reports.document import Document

_STYLES = ("tokens", "base", "components", "cards", "forms", "benchmarks", "reports")


def write(document: Document) -> bytes:
    context = {"document": document, "styles": inline_styles(_STYLES)}
    return render_to_string("reports/report.html", context).encode()
