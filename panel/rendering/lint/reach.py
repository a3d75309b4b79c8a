"""Find locations that no request reaches, and protection that another location bypasses, with sample paths.

The functions access no database and no host.
"""

from __future__ import annotations

from collections.abc import Iterator

from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.handlers import REDIRECTS
from panel.rendering.lint.finding import Finding
from panel.rendering.locations import Locations, Place, locations_of
from panel.rendering.samples import WORD, candidates
from panel.rendering.spec import Location, ServerBlock

MAX_LOCATIONS = 100  # of one server block: each costs a few matches


def of_block(block: ServerBlock, where: str) -> Iterator[Finding]:
    if not block.locations or len(block.locations) > MAX_LOCATIONS:
        return
    try:
        found = locations_of(block, f"/{where}")
        for place in found.places[: len(block.locations)]:
            yield from _of_place(place, found, f"{where}/locations/{place.number}")
    except NotExpressible:
        return  # reported at its field


def _of_place(place: Place, found: Locations, where: str) -> Iterator[Finding]:
    tried = [(path, choose(found, path).place) for path in _addresses(place, found)]
    others = [(path, other) for path, other in tried if other is not None and other != place]
    if others and len(others) == len(tried):
        path, other = others[0]
        yield Finding(
            "never-chosen",
            where,
            f"None of the paths that Paddock tried reaches the location {place.label}.",
            f"Other locations handle these paths: for example, {other.label} handles {path}.",
        )
    elif kind := _protection(place.location):
        deliberate = [other for _, other in others if place.pattern == "/" and other.pattern.startswith("^/")]
        weaker = [(path, other) for path, other in others if _is_weaker(place.location, other.location)]
        open_ones = [(path, other) for path, other in weaker if other not in deliberate]
        if open_ones:
            path, other = open_ones[0]
            yield Finding(
                "protection-bypassed",
                where,
                f"{kind} of the location {place.label} does not protect {path}.",
                f"The location {other.label} handles this path without the same protection. Use ^~ for "
                f"{place.pattern}, or add the protection to {other.label}.",
            )
    if place.location.handler == "return" and _leads_to_itself(place):
        yield Finding(
            "redirect-loop",
            where,
            f"The location {place.label} redirects to itself.",
            f"The same location handles the target {place.location.return_value}, so browsers stop with an error.",
        )


def _addresses(place: Place, found: Locations) -> list[str]:
    """Return sample paths that the pattern of a location matches.

    For a prefix, the result includes paths below the prefix that match regular expressions of other locations.
    """
    made = list(candidates(place, found))
    if place.is_prefix:
        folder = place.pattern.rstrip("/")
        for other in found.regexes:
            inside = [path for path in candidates(other, found) if path.startswith(place.pattern)]
            made += inside or [f"{folder}{path}" for path in candidates(other, found) if path.startswith(f"/{WORD}")]
    return list(dict.fromkeys(made))


def _protection(location: Location) -> str:
    """Return the protection of a location in words; "" if there is none."""
    if location.handler == "deny":
        return "The handler Deny"
    if location.basic_auth:
        return "The password"
    return "The access rules" if any(rule.action == "deny" for rule in location.access_rules) else ""


def _is_weaker(mine: Location, other: Location) -> bool:
    """Return whether the location `other` can admit visitors that the location `mine` denies."""
    if other.handler in ("deny", "return"):
        return False
    if mine.handler == "deny":
        return True
    if mine.basic_auth and not other.basic_auth:
        return True
    return bool(mine.access_rules) and mine.access_rules != other.access_rules


def _leads_to_itself(place: Place) -> bool:
    location = place.location
    if location.return_code not in REDIRECTS or place.is_regex:
        return False
    value = location.return_value
    if value in ("$request_uri", "$scheme://$host$request_uri"):
        return True
    target = value.partition("?")[0]
    exact = location.match == "="
    return target == place.pattern or (not exact and target.startswith("/") and target.startswith(place.pattern))
