"""docs/results/conformance.md is generated as a whole, by runs with and without OpenLiteSpeed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.conformance import results
from tests.suites.conformance.progress import Progress

NUMBERS = (1, 2, 3, 4)
BEFORE = "# Head\n\ntext\n\n## OpenLiteSpeed\n\nas it was found\n\n## Feature by feature\n\nold\n"


def written(path: Path, monkeypatch: pytest.MonkeyPatch, *engines: str) -> str:
    path.write_text(BEFORE)
    monkeypatch.setattr(results, "DOCUMENT", path)
    results.write(dict.fromkeys(engines, "1.0"), NUMBERS, Progress(None, ""))
    return path.read_text()


def test_results_keep_openlitespeed_section_when_it_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(tmp_path / "conformance.md", monkeypatch, "nginx", "gallop")
    assert "\n\n## OpenLiteSpeed\n\nas it was found\n\n## Feature by feature\n\n| " in text
    assert text.count("## OpenLiteSpeed") == text.count("## Feature by feature") == 1
    assert "old" not in text


def test_results_replace_openlitespeed_section_when_it_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(tmp_path / "conformance.md", monkeypatch, "nginx", "openlitespeed")
    assert "## OpenLiteSpeed" not in text
    assert "openlitespeed 1.0" in text


def test_results_document_has_parts_with_and_without_openlitespeed() -> None:
    text = results.DOCUMENT.read_text()
    assert results.KEPT in text or "openlitespeed " in text
    assert "## Feature by feature" in text
