"""Locations of a server block and their precedence: nginx's choice of a location, which all engines follow.

Source: nginx's documentation of `location`: an exact match ends the search; else the longest prefix is remembered, and
ends the search if it is `^~`; else the first matching regular expression in order; else the remembered prefix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Location, ServerBlock


@dataclass(frozen=True)
class Place:
    """One location of a server block, with its JSON pointer in the SiteSpec and its index in the block."""

    location: Location
    pointer: str
    number: int

    @property
    def is_regex(self) -> bool:
        return self.location.match in ("~", "~*")

    @property
    def is_prefix(self) -> bool:
        return self.location.match in ("", "^~")

    @property
    def is_fixed(self) -> bool:
        """True if the response does not depend on the matched part of the path."""
        return self.location.handler == "return" and not re.search(r"\$(?:\d|\{\d|uri)", self.location.return_value)

    @property
    def pattern(self) -> str:
        return self.location.pattern

    @property
    def label(self) -> str:
        return f"{self.location.match} {self.pattern}".strip()


@dataclass(frozen=True)
class Locations:
    """Locations of a server block.

    If the block has `try_files` and no location for the prefix `/`, a location for `/` with this `try_files` is added.
    """

    places: tuple[Place, ...]

    @cached_property
    def exact(self) -> tuple[Place, ...]:
        return tuple(place for place in self.places if place.location.match == "=")

    @cached_property
    def prefixes(self) -> tuple[Place, ...]:
        """Locations with a prefix, `^~` or plain, longest prefix first."""
        found = [place for place in self.places if place.is_prefix]
        return tuple(sorted(found, key=lambda place: len(place.pattern), reverse=True))

    @cached_property
    def regexes(self) -> tuple[Place, ...]:
        """Locations with a regular expression, in the order of evaluation."""
        return tuple(place for place in self.places if place.is_regex)

    def in_order(self) -> tuple[Place, ...]:
        """Return the locations by precedence: exact, regular expressions, prefixes longest first.

        A single order cannot express that `^~` prefixes precede regular expressions.
        """
        return self.exact + self.regexes + self.prefixes


def locations_of(block: ServerBlock, at: str) -> Locations:
    """Return the locations of a server block with their JSON pointers; `at` is the block's own pointer."""
    places = [Place(location, f"{at}/locations/{n}", n) for n, location in enumerate(block.locations)]
    for place in places:
        _check(place)
    _check_unique(places)
    has_root = any(place.is_prefix and place.pattern == "/" for place in places)
    if block.try_files and not has_root:
        everything = Location(match="", pattern="/", handler="static", try_files=block.try_files)
        places.append(Place(everything, at, len(places)))
    return Locations(tuple(places))


def _check(place: Place) -> None:
    if not place.is_regex and not place.pattern.startswith("/"):
        raise NotExpressible(f"{place.pointer}/pattern", f"“{place.pattern}” matches no path; start the path with /")
    if not place.pattern:
        raise NotExpressible(f"{place.pointer}/pattern", "the path is empty; enter a regular expression")


def _check_unique(places: list[Place]) -> None:
    seen: set[tuple[str, str]] = set()
    for place in places:
        key = ("prefix" if place.is_prefix else place.location.match, place.pattern)
        if key in seen:
            raise NotExpressible(
                f"{place.pointer}/pattern", f"location {place.label} appears twice in this server block"
            )
        seen.add(key)
