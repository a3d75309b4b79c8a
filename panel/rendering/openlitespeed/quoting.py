"""Quote values for OpenLiteSpeed. A value is the rest of its line without quotes, so some values cannot be expressed.

Source: src/main/plainconf.cpp.
"""

from __future__ import annotations

import re

from panel.rendering import checks
from panel.rendering.errors import NotExpressible
from panel.rendering.readers.openlitespeed import MAX_LINE_BYTES
from panel.rendering.tree import Directive

_CONDITION = re.compile(r"(?:^|[ \t])env=", re.I)
_VARIABLE = re.compile(r"\$(SERVER_ROOT|VH_NAME|VH_ROOT|VH_DOMAIN|DOC_ROOT)", re.I)


def value(text: str, field: str, *, among_lines: bool = False) -> str:
    """Return `text` if a line can contain it exactly; raise NotExpressible otherwise.

    `among_lines`: the line is part of a multi-line value, in which OpenLiteSpeed does not join lines at a final
    backslash.
    """
    if text != text.strip(" \t") or not text:
        raise NotExpressible(field, "OpenLiteSpeed drops leading and trailing spaces and empty values; remove them")
    if "\n" in text or "\r" in text:
        raise NotExpressible(field, "OpenLiteSpeed's values are single lines; remove the line break")
    if text.endswith("{"):
        raise NotExpressible(field, "OpenLiteSpeed reads a { at the end of a line as the start of a block; remove it")
    if text.endswith("\\") and not among_lines:
        raise NotExpressible(field, "OpenLiteSpeed joins a line that ends in \\ with the next line; remove the \\")
    if "<<<" in text:
        raise NotExpressible(field, "OpenLiteSpeed reads <<< as the start of a multi-line value; remove it")
    if found := _VARIABLE.search(text):
        raise NotExpressible(
            field, f"OpenLiteSpeed would expand {found[0]} in this value; use a value without {found[0]}"
        )
    checks.text(text, field)
    if len(text.encode()) > MAX_LINE_BYTES - 200:
        raise NotExpressible(
            field, f"the value is longer than {MAX_LINE_BYTES} bytes, OpenLiteSpeed's limit per line; shorten it"
        )
    return text


def path(text: str, field: str) -> str:
    if "," in text:
        raise NotExpressible(field, "OpenLiteSpeed separates values by commas; use a path without commas")
    return value(text, field)


def header(text: str, field: str) -> str:
    """Return a header's value in the notation of header operations (HttpHeaderOps, observed on 1.9.1).

    A value that begins with a quote or ends with the word early is put in quotes, because OpenLiteSpeed would remove
    that quote or word. Raises NotExpressible if such a value contains both kinds of quotes, because no escapes exist
    within quotes.
    """
    if _CONDITION.search(text):
        raise NotExpressible(field, "OpenLiteSpeed reads env= in a header value as a condition; use another value")
    if not (text.startswith(('"', "'")) or text.split()[-1:] == ["early"]):
        return value(text, field, among_lines=True)
    mark = next((mark for mark in ('"', "'") if mark not in text), "")
    if not mark:
        raise NotExpressible(field, "OpenLiteSpeed cannot write a header value with both kinds of quotes; use one kind")
    return value(f"{mark}{text}{mark}", field, among_lines=True)


def line(directive: Directive) -> str:
    return " ".join([directive.name, *directive.args])
