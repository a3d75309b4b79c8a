"""Names of shared settings in a site's settings: find them, and replace them by the content of the setting. `@office`
refers to the setting "office". No database access here.
"""

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
    """Return the names of the access lists that access rules use. The rules may have any shape, because they are not
    validated yet.
    """
    return _named(rules, "source")


def header_sets_named(headers: Any) -> set[str]:
    """Return the names of the header sets that response headers use. The headers may have any shape, because they are
    not validated yet.
    """
    return _named(headers, "name")


def directive_sets_named(text: str) -> set[str]:
    """Return the names of the directive sets that raw directives use; each is on a line of its own."""
    return {match["name"] for line in text.split("\n") if (match := _DIRECTIVE_SET.fullmatch(line))}


def _named(items: Any, member: str) -> set[str]:
    rows = items if isinstance(items, list) else []
    texts = (row.get(member) for row in rows if isinstance(row, dict))
    return {text[1:] for text in texts if isinstance(text, str) and text.startswith(MARK)}


def rules_expanded(rules: Iterable[Mapping[str, str]], lists: Mapping[str, Sequence[str]]) -> tuple[AccessRule, ...]:
    """Return the access rules in their order, with the addresses of access lists in place of the lists' names.

    Raises ApplicationError if a list does not exist: without its rule, a site might let visitors in.
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
    """Return the headers in their order, with the headers of header sets in place of the sets' names.

    A header in `headers` replaces a header of the same name in a set. If two sets have the same header, the first set's
    header is used. Raises ApplicationError if a set does not exist, because a site might need the set for protection.
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
    """One line of raw directives.

    `name`: the directive set that contains the line, "" for the raw directives themselves. `number`: number of the
    line, from 1, in the text of this directive set or of the raw directives.
    """

    text: str
    name: str
    number: int


def directive_lines(text: str, sets: Mapping[str, str]) -> Iterator[Line]:
    """Yield the lines of raw directives, with the lines of directive sets in place of the sets' names.

    `sets` maps the names of directive sets to their texts. Raises ApplicationError if a set does not exist.
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
    """Return raw directives with the text of directive sets in place of the sets' names."""
    return "\n".join(line.text for line in directive_lines(text, sets))
