"""Shared settings in the places that name them: `@office` means the setting of that name. No database here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from panel.core.errors import ApplicationError
from panel.rendering.spec import AccessRule, Header

MARK = "@"
_DIRECTIVE_SET = re.compile(r"[ \t]*@(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)[ \t]*")


def lists_named(rules: Any) -> set[str]:
    """Names of the access lists in access rules, which may have any shape before they are validated."""
    return _named(rules, "source")


def header_sets_named(headers: Any) -> set[str]:
    """Names of the header sets in response headers, which may have any shape before they are validated."""
    return _named(headers, "name")


def directive_sets_named(text: str) -> set[str]:
    """Names of the directive sets in raw directives: each is a line of its own."""
    return {match["name"] for line in text.split("\n") if (match := _DIRECTIVE_SET.fullmatch(line))}


def _named(items: Any, member: str) -> set[str]:
    rows = items if isinstance(items, list) else []
    texts = (row.get(member) for row in rows if isinstance(row, dict))
    return {text[1:] for text in texts if isinstance(text, str) and text.startswith(MARK)}


def rules_expanded(rules: Iterable[Mapping[str, str]], lists: Mapping[str, Sequence[str]]) -> tuple[AccessRule, ...]:
    """The rules in their order, with the addresses of lists in place of the lists' names.

    ApplicationError for a list that does not exist, because visitors might get access without it.
    """
    found: list[AccessRule] = []
    for rule in rules:
        source = rule["source"]
        if source.startswith(MARK) and source[1:] not in lists:
            raise ApplicationError(f"The access list “{source[1:]}” does not exist. Remove it from the access rules.")
        sources = lists[source[1:]] if source.startswith(MARK) else (source,)
        found += [AccessRule(cast(Any, rule["action"]), item) for item in sources]
    return tuple(found)


def headers_expanded(
    headers: Sequence[Mapping[str, Any]], sets: Mapping[str, Sequence[Mapping[str, Any]]]
) -> tuple[Header, ...]:
    """The headers in their order, with those of header sets in place of the sets' names.

    A header that the list itself has is not taken from a set, and of two sets with the same header the first one gives
    it. ApplicationError for a set that does not exist: without it, a protection might be missing.
    """
    taken = {item["name"].lower() for item in headers}
    found: list[Header] = []
    for item in headers:
        if not item["name"].startswith(MARK):
            found.append(_header(item))
            continue
        name = item["name"][1:]
        if name not in sets:
            raise ApplicationError(f"The header set “{name}” does not exist. Remove it from the response headers.")
        given = [row for row in sets[name] if row["name"].lower() not in taken]
        taken.update(row["name"].lower() for row in given)
        found += map(_header, given)
    return tuple(found)


def _header(item: Mapping[str, Any]) -> Header:
    return Header(item["name"], item["value"], item.get("always", True))


@dataclass(frozen=True)
class Line:
    """One line of raw directives. `name`: the directive set that it comes from, "" for the text itself; `number`: its
    line there, from 1.
    """

    text: str
    name: str
    number: int


def directive_lines(text: str, sets: Mapping[str, str]) -> Iterator[Line]:
    """The lines of raw directives, with those of directive sets in place of the sets' names.

    ApplicationError for a set that does not exist.
    """
    for number, line in enumerate(text.split("\n"), 1):
        match = _DIRECTIVE_SET.fullmatch(line)
        if match is None:
            yield Line(line, "", number)
        elif match["name"] in sets:
            rows = sets[match["name"]].strip("\n").split("\n")
            yield from (Line(row, match["name"], at) for at, row in enumerate(rows, 1))
        else:
            raise ApplicationError(
                f"The directive set “{match['name']}” does not exist for this web server. Remove line {number}."
            )


def directives_expanded(text: str, sets: Mapping[str, str]) -> str:
    """Raw directives with the lines of directive sets in place of the sets' names."""
    return "\n".join(line.text for line in directive_lines(text, sets))
