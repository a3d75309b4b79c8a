"""What a long run has compared so far, kept in a file after every batch of sites, so that a later call goes on there.

A file is only used again for the same numbers, the same renderers and tests and the same binaries.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

from tests.suites.conformance.compare import Outcome

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ("panel/rendering", "templates/servers", "tests/suites/conformance", "tests/rendering/hostile.py")


def digest(*more: str) -> str:
    """Of everything that a result depends on: the sources, and `more` (numbers, versions)."""
    found = hashlib.sha256("\0".join(more).encode())
    for source in SOURCES:
        path = ROOT / source
        files = sorted(item for item in path.rglob("*") if item.suffix in (".py", ".j2")) if path.is_dir() else [path]
        for file in files:
            found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


class Progress:
    """Outcomes by the name of their part. Without a `path` they are kept in memory only."""

    def __init__(self, path: Path | None, key: str) -> None:
        self.path, self.key = path, key
        self.parts: dict[str, Outcome] = {}
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            if kept["key"] == key:
                self.parts = {name: _outcome(part) for name, part in kept["parts"].items()}

    def done(self, name: str) -> bool:
        return name in self.parts

    def add(self, name: str, outcome: Outcome) -> None:
        self.parts[name] = outcome
        if self.path is not None:
            parts = {name: _plain(part) for name, part in self.parts.items()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps({"key": self.key, "parts": parts}, indent=1))

    def whole(self, prefix: str = "") -> Outcome:
        """All parts whose names begin so, together."""
        found = Outcome()
        for name, part in self.parts.items():
            if name.startswith(prefix):
                found.add(part)
        return found


def _plain(outcome: Outcome) -> dict[str, object]:
    return {"compared": outcome.compared, "known": outcome.known, "unexplained": [*map(str, outcome.unexplained)]}


def _outcome(part: dict[str, object]) -> Outcome:
    unexplained = part["unexplained"]
    assert isinstance(unexplained, list)
    return Outcome(int(str(part["compared"])), Counter(part["known"]), unexplained)
