"""OpenLiteSpeed's lines. A value is the rest of its line and there is no quoting, so some values cannot be said.

Source: src/main/plainconf.cpp.
"""

from __future__ import annotations

import re

from panel.rendering import checks
from panel.rendering.errors import NotExpressible
from panel.rendering.readers.openlitespeed import MAX_LINE_BYTES
from panel.rendering.tree import Directive

_VARIABLE = re.compile(r"\$(SERVER_ROOT|VH_NAME|VH_ROOT|VH_DOMAIN|DOC_ROOT)", re.I)


def value(text: str, field: str) -> str:
    """`text` when a line can carry it exactly."""
    if text != text.strip(" \t") or not text:
        raise NotExpressible(field, "OpenLiteSpeed drops blanks at both ends of a value, and empty ones; remove them")
    if "\n" in text or "\r" in text:
        raise NotExpressible(field, "OpenLiteSpeed's values are one line; remove the line break")
    if text.endswith("{"):
        raise NotExpressible(field, "OpenLiteSpeed reads a { at the end of a line as the start of a block; remove it")
    if text.endswith("\\"):
        raise NotExpressible(field, "OpenLiteSpeed joins a line that ends in \\ with the next one; remove it")
    if "<<<" in text:
        raise NotExpressible(field, "OpenLiteSpeed reads <<< as the start of several lines; remove it")
    if found := _VARIABLE.search(text):
        raise NotExpressible(field, f"OpenLiteSpeed would replace {found[0]} here; use a value without it")
    checks.text(text, field)
    if len(text.encode()) > MAX_LINE_BYTES - 200:
        raise NotExpressible(field, f"is longer than the {MAX_LINE_BYTES} bytes that OpenLiteSpeed reads in a line")
    return text


def path(text: str, field: str) -> str:
    if "," in text:
        raise NotExpressible(field, "OpenLiteSpeed separates values by commas; use a path without one")
    return value(text, field)


def line(directive: Directive) -> str:
    return " ".join([directive.name, *directive.args])
