"""The suffixes by which a virtual host knows its scripts: contexts cannot choose whether scripts run."""

from __future__ import annotations

import re

from panel.rendering.spec import Location

_ENDS = re.compile(r"\\\.(?:\((?:\?:)?([A-Za-z0-9|]+)\)|([A-Za-z0-9]+))(?:\$|\(|$)")
_SUFFIX = re.compile(r"\.([A-Za-z0-9]+)$")
USUAL = ("php",)


def suffixes(source: Location) -> tuple[str, ...]:
    """Those that the location's pattern ends in; of a prefix, and where the pattern names none, the usual one."""
    if source.match in ("~", "~*"):
        found = _ENDS.search(source.pattern)
        return tuple((found[1] or found[2]).split("|")) if found else USUAL
    plain = _SUFFIX.search(source.pattern) if source.match == "=" else None
    return (plain[1],) if plain else USUAL


def are_known(source: Location) -> bool:
    """Whether the pattern says which scripts it means."""
    return source.match not in ("~", "~*") or _ENDS.search(source.pattern) is not None
