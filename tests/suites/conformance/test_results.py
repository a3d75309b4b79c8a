"""docs/results/conformance.md is generated whole, by runs with OpenLiteSpeed and without."""

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


def test_a_run_without_openlitespeed_keeps_what_was_found_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(tmp_path / "conformance.md", monkeypatch, "nginx", "gallop")
    assert "\n\n## OpenLiteSpeed\n\nas it was found\n\n## Feature by feature\n\n| " in text
    assert text.count("## OpenLiteSpeed") == text.count("## Feature by feature") == 1
    assert "old" not in text


def test_a_run_with_it_says_what_it_found_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = written(tmp_path / "conformance.md", monkeypatch, "nginx", "openlitespeed")
    assert "## OpenLiteSpeed" not in text
    assert "openlitespeed 1.0" in text


def test_the_document_has_both_parts() -> None:
    text = results.DOCUMENT.read_text()
    assert results.KEPT in text or "openlitespeed " in text
    assert "## Feature by feature" in text
