"""CSV cells that spreadsheet programs must not run as formulas (CWE-1236)."""

from __future__ import annotations

from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(value: object) -> object:
    """Return `value` for a cell of a CSV file: None becomes "", numbers stay numbers, and a text that begins like a
    formula gets an apostrophe as prefix.
    """
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    text = str(value)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def row(values: Iterable[object]) -> list[object]:
    return [cell(value) for value in values]
