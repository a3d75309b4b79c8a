"""Choose the location for a path, with reasons: nginx's search, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

from panel.rendering.locations import Locations, Place
from panel.rendering.pcre import search


@dataclass(frozen=True)
class Choice:
    """Location chosen for a path.

    `place`: the chosen location, None if no location matches. `slash`: the server redirects to the path with a final /,
    with the settings of this location.
    """

    place: Place | None
    reasons: tuple[str, ...]
    captures: dict[str, str] = field(default_factory=dict)
    slash: bool = False


def choose(found: Locations, path: str) -> Choice:
    """Choose the location for a path: exact; else the longest prefix, final with ^~; else the first regular
    expression.
    """
    for place in found.exact:
        if place.pattern == path:
            return Choice(place, (f"location {place.label} matches exactly this path, so the search ends",))
    reasons = [f"location {place.label} does not match because its exact path is another" for place in found.exact]
    if slashed := with_slash(found, path):
        return Choice(
            slashed,
            (
                *reasons,
                (
                    f"location {slashed.label} passes requests on, so the web server adds the final / "
                    "with a 301 redirect"
                ),
            ),
            slash=True,
        )
    fitting = [place for place in found.prefixes if path.startswith(place.pattern)]
    reasons += [
        f"location {place.label} is not a prefix of the path" for place in found.prefixes if place not in fitting
    ]
    if not fitting:
        return _regex(found, path, None, reasons)
    longest = fitting[0]
    reasons += [
        f"location {place.label} is a prefix of the path, but location {longest.label} is longer"
        for place in fitting[1:]
    ]
    if longest.location.match == "^~":
        reasons.append(f"location {longest.label} is the longest prefix of the path, and ^~ skips regular expressions")
        return Choice(longest, tuple(reasons))
    reasons.append(
        f"location {longest.label} is the longest prefix of the path; the web server checks regular expressions next"
    )
    return _regex(found, path, longest, reasons)


def with_slash(found: Locations, path: str) -> Place | None:
    """Return the location for proxying or PHP whose pattern is the path with a final /; None if there is none.

    nginx redirects to the path with the final / before anything else, unless a location has the path itself as its
    pattern. If an exact and a prefix location share the pattern, the settings of the exact location apply
    (ngx_http_core_find_static_location: one tree node for both).
    """
    if not path or any(place.pattern == path for place in (*found.exact, *found.prefixes)):
        return None
    both = [place for place in (*found.exact, *found.prefixes) if place.pattern == path + "/"]
    return both[0] if any(place.location.handler in ("proxy", "php") for place in both) else None


def _regex(found: Locations, path: str, longest: Place | None, reasons: list[str]) -> Choice:
    for number, place in enumerate(found.regexes):
        captures = search(place.pattern, path, nocase=place.location.match == "~*")
        if captures is None:
            reasons.append(f"the regular expression of location {place.label} does not match the path")
            continue
        over = f" and takes precedence over location {longest.label}" if longest else ""
        reasons.append(f"location {place.label} is the first matching regular expression{over}")
        reasons += [
            f"location {item.label} is not checked because an earlier regular expression matches"
            for item in found.regexes[number + 1 :]
        ]
        return Choice(place, tuple(reasons), captures)
    if longest is None:
        return Choice(None, (*reasons, "no location matches; the server block itself handles the request"))
    return Choice(
        longest, (*reasons, f"no regular expression matches, so location {longest.label} handles the request")
    )
