"""Parse unified diffs into rows for display, without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$")
Kind = Literal["same", "added", "removed", "hunk", "note"]


@dataclass(frozen=True)
class DiffLine:
    kind: Kind
    text: str
    old: int | None = None  # line number in the old file, counted from 1
    new: int | None = None


@dataclass(frozen=True)
class DiffPair:
    """One row of a split view: the old line on the left, the new line on the right."""

    left: DiffLine | None
    right: DiffLine | None
    hunk: DiffLine | None = None


def parse_unified(text: str) -> list[DiffLine]:
    """Parse the unified diff of one file into lines. The `---`/`+++` header is left out."""
    return list(_lines(text))


def _lines(text: str) -> Iterator[DiffLine]:
    old = new = 0
    in_hunk = False
    for raw in text.splitlines():
        hunk = _HUNK.match(raw)
        if hunk:
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
            yield DiffLine("hunk", raw)
        elif not in_hunk:
            if not raw.startswith(("--- ", "+++ ")):
                yield DiffLine("note", raw)
        elif raw.startswith("+"):
            yield DiffLine("added", raw[1:], new=new)
            new += 1
        elif raw.startswith("-"):
            yield DiffLine("removed", raw[1:], old=old)
            old += 1
        elif raw.startswith("\\"):
            yield DiffLine("note", raw[1:].strip())
        else:
            yield DiffLine("same", raw[1:], old=old, new=new)
            old, new = old + 1, new + 1


def split_rows(lines: list[DiffLine]) -> list[DiffPair]:
    """Arrange diff lines as rows of a split view: removed lines at the left, beside the added lines after them."""
    rows: list[DiffPair] = []
    removed: list[DiffLine] = []
    added: list[DiffLine] = []

    def flush() -> None:
        for index in range(max(len(removed), len(added))):
            left = removed[index] if index < len(removed) else None
            right = added[index] if index < len(added) else None
            rows.append(DiffPair(left, right))
        removed.clear()
        added.clear()

    for line in lines:
        if line.kind == "removed":
            if added:
                flush()
            removed.append(line)
        elif line.kind == "added":
            added.append(line)
        else:
            flush()
            is_text = line.kind == "same"
            rows.append(DiffPair(line, line) if is_text else DiffPair(None, None, hunk=line))
    flush()
    return rows
