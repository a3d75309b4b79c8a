"""Find the script suffixes of a virtual host, in which contexts cannot choose whether scripts run."""

from __future__ import annotations

import re

from panel.rendering.spec import Location

_ENDS = re.compile(r"\\\.(?:\((?:\?:)?([A-Za-z0-9|]+)\)|([A-Za-z0-9]+))(?:\$|\(|$)")
_SUFFIX = re.compile(r"\.([A-Za-z0-9]+)$")
USUAL = ("php",)


def suffixes(source: Location) -> tuple[str, ...]:
    """Return the suffixes at the end of the location's pattern; the usual one for a prefix or a pattern without
    suffixes.
    """
    if source.match in ("~", "~*"):
        found = _ENDS.search(source.pattern)
        return tuple((found[1] or found[2]).split("|")) if found else USUAL
    plain = _SUFFIX.search(source.pattern) if source.match == "=" else None
    return (plain[1],) if plain else USUAL


def are_known(source: Location) -> bool:
    """Return whether the suffixes of the location's scripts are known: a regular expression must end in them."""
    return source.match not in ("~", "~*") or _ENDS.search(source.pattern) is not None
