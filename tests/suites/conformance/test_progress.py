"""A long run continues where it stopped and records what it found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.suites.conformance.compare import Outcome
from tests.suites.conformance.progress import Progress
from tests.suites.conformance.results import line, markdown

VERSIONS = {"nginx": "1.22.1", "gallop": "0.1.0"}


def filled(path: Path | None) -> Progress:
    progress = Progress(path, "key")
    progress.add("fixed: nginx", Outcome(10))
    progress.add("generated: 1 to 25", Outcome(7500, Counter({"gallop: headers of 416": 3}), ["one that differs"]))
    return progress


def test_interrupted_run_continues_with_same_key_only(tmp_path: Path) -> None:
    filled(tmp_path / "kept" / "run.json")
    again = Progress(tmp_path / "kept" / "run.json", "key")
    assert again.done("fixed: nginx") and not again.done("explained: 1 to 25")
    assert again.whole() == Outcome(7510, Counter({"gallop: headers of 416": 3}), ["one that differs"])
    assert not Progress(tmp_path / "kept" / "run.json", "other code").done("fixed: nginx")


def test_summary_line_names_engines_requests_and_differences() -> None:
    assert line(VERSIONS, filled(None)) == "nginx 1.22.1, gallop 0.1.0: 7510 requests compared, 1 differences"


def test_results_document_counts_each_part() -> None:
    text = markdown(VERSIONS, (25, 100, 20, 1), filled(None))
    assert "| 25 generated sites x 100 requests, each web server compared with nginx | 7500 | 3 | 1 |" in text
    assert "- gallop: headers of 416: 3" in text
    assert "| location: websocket | same | documented difference | not offered | same |" in text
