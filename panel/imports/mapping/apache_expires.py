"""Map mod_expires (https://httpd.apache.org/docs/2.4/mod/mod_expires.html): expiry times of a folder's files.

In a site, expiry times belong to a location. So a section with ExpiresDefault maps to the location of its alias; times
by type or for the whole virtual host are kept as raw directives.
"""

from __future__ import annotations

import re
from dataclasses import replace

from panel.imports.mapping.apache_made import Host
from panel.imports.mapping.common import fits
from panel.imports.reading import Node
from panel.websites import validators
from panel.websites.definitions import LocationData

WORDS = ("expiresactive", "expiresdefault", "expiresbytype")
BY_TYPE = "sites set expiry times per location, not per media type, so this stays a raw directive for Apache"
OF_ALL = "sites set expiry times per location, not per server block, so this stays a raw directive for Apache"
_UNITS = {"year": 31536000, "month": 2592000, "week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}
# The model has no times relative to a file's change.
_PLUS = re.compile(r"(?:access|now)(?:\s+plus)?((?:\s+\d{1,9}\s+[a-z]+)+)")
_SHORT = re.compile(r"A(\d{1,9})")


def value(said: str) -> str:
    """Convert a time of ExpiresDefault to the notation of sites, for example 7d; "" if there is no equivalent."""
    if match := _SHORT.fullmatch(said):
        return _worded(int(match[1]))
    match = _PLUS.fullmatch(" ".join(said.lower().split()))
    if match is None:
        return ""
    total = 0
    for count, unit in re.findall(r"(\d+) ([a-z]+)", match[1]):
        if unit.removesuffix("s") not in _UNITS:
            return ""
        total += int(count) * _UNITS[unit.removesuffix("s")]
    return _worded(total)


def _worded(seconds: int) -> str:
    fitting = [pair for pair in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")) if seconds % pair[0] == 0]
    size, unit = fitting[0] if seconds else (1, "s")
    return f"{seconds // size}{unit}"


def taken(made: Host, node: Node) -> str | None:
    """Return the reason to keep a directive of mod_expires as a raw directive. Called for directives outside of
    sections.
    """
    return BY_TYPE if node.low == "expiresbytype" else OF_ALL


def says(node: Node) -> bool:
    """Return whether a node is a `<Directory>` or `<Location>` with directives of mod_expires."""
    return node.low in ("directory", "location") and any(item.low in WORDS for item in node.body or ())


def section(made: Host, node: Node) -> Node | None:
    """Map the expiry time in a `<Directory>` or `<Location>` to the matching location of the site. Return the section
    without the mapped lines; None if no lines remain. A section that cannot be mapped is returned unchanged.
    """
    said = [item for item in node.body or () if item.low in WORDS]
    row = _row(made, node) if said else None
    times = [value(item.value) for item in said if item.low == "expiresdefault" and len(item.args) == 1]
    is_on = [item.value.lower() for item in said if item.low == "expiresactive"]
    whole = len(times) == 1 and is_on == ["on"] and len(said) == 2
    if row is None or "expires" in row or not whole or not times[0] or fits(validators.validate_expires, times[0]):
        return node
    row["expires"] = times[0]
    for item in said:
        made.draft.note(item, "mapped", where=f"{made.where}/locations/{made.block['locations'].index(row)}")
    rest = tuple(item for item in node.body or () if item.low not in WORDS)
    return replace(node, body=rest) if rest else None


def _row(made: Host, node: Node) -> LocationData | None:
    """Return the aliased location with exactly the paths of a `<Directory>` or `<Location>`; None without such a
    location.
    """
    if len(node.args) != 1:
        return None
    for row in made.block["locations"]:
        if row["handler"] == "static" and row.get("alias") and row["match"] in ("", "^~"):
            of_path = node.low == "location" and row["pattern"] == f"{node.value.rstrip('/')}/"
            if of_path or (node.low == "directory" and made.path(row["alias"]) == made.path(node.value)):
                found: LocationData = row
                return found
    return None
