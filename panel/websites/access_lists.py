"""Access rules that name lists: `@office` means each address and network of the list. No database here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from panel.core.errors import ApplicationError
from panel.rendering.spec import AccessRule


def named(rules: Any) -> set[str]:
    """Names of the lists in access rules, which may have any shape before they are validated."""
    rows = rules if isinstance(rules, list) else []
    sources = (row.get("source") for row in rows if isinstance(row, dict))
    return {source[1:] for source in sources if isinstance(source, str) and source.startswith("@")}


def expanded(rules: Iterable[Mapping[str, str]], lists: Mapping[str, Sequence[str]]) -> tuple[AccessRule, ...]:
    """The rules in their order, with the addresses of lists in place of the lists' names.

    ApplicationError for a list that does not exist: without it, visitors might get in.
    """
    found: list[AccessRule] = []
    for rule in rules:
        source = rule["source"]
        if source.startswith("@") and source[1:] not in lists:
            raise ApplicationError(f"The access list “{source[1:]}” does not exist. Remove it from the access rules.")
        sources = lists[source[1:]] if source.startswith("@") else (source,)
        found += [AccessRule(cast(Any, rule["action"]), item) for item in sources]
    return tuple(found)
