"""Unified diffs as rows: line numbers, headers and the two sides of a split view."""

from __future__ import annotations

import difflib

from panel.core.diffs import parse_unified, split_rows

OLD = "server {\n    listen 80;\n    root /srv/a;\n}\n"
NEW = "server {\n    listen 80;\n    listen [::]:80;\n    root /srv/b;\n}\n"


def _diff(old: str, new: str) -> str:
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), "a", "b", lineterm=""))


def test_diff_lines_are_numbered_on_each_side() -> None:
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


def test_diff_reproduces_both_files() -> None:
    lines = parse_unified(_diff(OLD, NEW))
    assert [line.text for line in lines if line.kind in {"same", "removed"}] == OLD.splitlines()
    assert [line.text for line in lines if line.kind in {"same", "added"}] == NEW.splitlines()


def test_diff_treats_header_like_content_as_content() -> None:
    lines = parse_unified(_diff("-- a\n", "++ b\n"))
    assert [(line.kind, line.text) for line in lines[1:]] == [("removed", "-- a"), ("added", "++ b")]


def test_split_diff_pairs_removed_and_added_lines() -> None:
    rows = split_rows(parse_unified(_diff(OLD, NEW)))
    sides = [(row.left and row.left.text, row.right and row.right.text) for row in rows if not row.hunk]
    assert sides[2] == ("    root /srv/a;", "    listen [::]:80;")
    assert sides[3] == (None, "    root /srv/b;")


def test_diff_of_equal_files_is_empty() -> None:
    assert parse_unified(_diff(OLD, OLD)) == []
