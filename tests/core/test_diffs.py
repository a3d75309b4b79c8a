"""Unified diffs as rows: line numbers, headers, and the two sides of a split view."""

from __future__ import annotations

import difflib

from panel.core.diffs import parse_unified, split_rows

OLD = "server {\n    listen 80;\n    root /srv/a;\n}\n"
NEW = "server {\n    listen 80;\n    listen [::]:80;\n    root /srv/b;\n}\n"


def _diff(old: str, new: str) -> str:
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), "a", "b", lineterm=""))


def test_every_line_carries_its_number_on_its_own_side() -> None:
    lines = parse_unified(_diff(OLD, NEW))
    assert [(line.kind, line.old, line.new) for line in lines] == [
        ("hunk", None, None),
        ("same", 1, 1),
        ("same", 2, 2),
        ("removed", 3, None),
        ("added", None, 3),
        ("added", None, 4),
        ("same", 4, 5),
    ]


def test_the_two_files_can_be_put_together_again() -> None:
    lines = parse_unified(_diff(OLD, NEW))
    assert [line.text for line in lines if line.kind in {"same", "removed"}] == OLD.splitlines()
    assert [line.text for line in lines if line.kind in {"same", "added"}] == NEW.splitlines()


def test_content_that_looks_like_a_header_is_content() -> None:
    lines = parse_unified(_diff("-- a\n", "++ b\n"))
    assert [(line.kind, line.text) for line in lines[1:]] == [("removed", "-- a"), ("added", "++ b")]


def test_removed_and_added_runs_stand_side_by_side() -> None:
    rows = split_rows(parse_unified(_diff(OLD, NEW)))
    sides = [(row.left and row.left.text, row.right and row.right.text) for row in rows if not row.hunk]
    assert sides[2] == ("    root /srv/a;", "    listen [::]:80;")
    assert sides[3] == (None, "    root /srv/b;")


def test_equal_files_have_no_lines() -> None:
    assert parse_unified(_diff(OLD, OLD)) == []
