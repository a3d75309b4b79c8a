"""docs/engines.md equals the capability tables."""

from __future__ import annotations

from tests.suites.conformance.table import DOCUMENT, markdown, rows


def test_engines_document_matches_capability_tables() -> None:
    assert DOCUMENT.read_text() == markdown(), "python -m tests.suites.conformance.table writes it anew"


def test_every_feature_has_row_for_each_engine() -> None:
    found = list(rows())
    assert len(found) > 60
    assert all(len(row) == 4 for _, row in found)
