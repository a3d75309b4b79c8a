"""Check a site's rewrites for all engines, and apply them to a path.

Source: ngx_http_rewrite_module. The server block's rewrites run first, then those of the chosen location. If a location
changes the path without `break`, the location is chosen again, at most ten times.
"""

from __future__ import annotations

from dataclasses import dataclass

from panel.rendering import checks, variables
from panel.rendering.choice import Choice, choose
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import groups
from panel.rendering.locations import Locations, Place
from panel.rendering.pcre import search
from panel.rendering.spec import Rewrite, ServerBlock

FLAGS = ("", "last", "break", "redirect", "permanent")
ROUNDS = 10
_SCHEMES = ("http://", "https://", "$scheme")


def check(item: Rewrite, at: str) -> None:
    """Raise NotExpressible for a rewrite that nginx, Apache or OpenLiteSpeed would reject or read differently."""
    checks.pcre(item.pattern, f"{at}/pattern")
    if not item.pattern or " " in item.pattern:
        raise NotExpressible(f"{at}/pattern", "enter a regular expression without spaces, for example ^/old/(.*)$")
    if item.flag not in FLAGS:
        raise NotExpressible(f"{at}/flag", f"“{item.flag}” is not a flag; use last, break, redirect, or permanent")
    checks.text(item.replacement, f"{at}/replacement")
    if not item.replacement.startswith(("/", "http://", "https://", "$")) or " " in item.replacement:
        raise NotExpressible(
            f"{at}/replacement", f"“{item.replacement}” is neither a path nor a URL; use a target such as /new/$1"
        )
    parts = variables.parse(item.replacement, f"{at}/replacement", captures=variables.captures_of(item.pattern))
    count = len(groups(item.pattern))
    for part in parts:
        if isinstance(part, variables.Variable) and part.is_capture and int(part.name) > count:
            raise NotExpressible(f"{at}/replacement", f"${part.name} refers to a group that the pattern does not have")


def redirects(item: Rewrite) -> int:
    """Return the status of the redirect that a rewrite sends; 0 for a rewrite that only changes the path."""
    if item.flag == "permanent":
        return 301
    return 302 if item.flag == "redirect" or item.replacement.startswith(_SCHEMES) else 0


def ends(item: Rewrite) -> bool:
    return bool(item.flag) or bool(redirects(item))


@dataclass(frozen=True)
class Rewritten:
    """Result of applying a list of rewrites to a path.

    `status`: status of a redirect to `path`, else 0. `stays`: the last rewrite has the flag `break`, so the location
    stays the same. `steps` describe the applied rewrites.
    """

    path: str
    query: str
    status: int = 0
    changed: bool = False
    stays: bool = False  # because of `break`
    steps: tuple[str, ...] = ()


def apply(items: tuple[Rewrite, ...], path: str, query: str, known: dict[str, str]) -> Rewritten:
    """Apply rewrites to a path. `known` are the request's variables by name, except `uri` and `args`, which the
    rewrites change.
    """
    steps: list[str] = []
    changed = False
    for item in items:
        found = search(item.pattern, path)
        if found is None:
            continue
        new, own = _replaced(item, {**known, "uri": path, "args": query, **found}, frozenset(found))
        changed = True
        steps.append(f"rewrite {item.pattern} changes {path} to {new}")
        kept = own.removesuffix("?") if own.endswith("?") or not query else f"{own}&{query}" if own else query
        if status := redirects(item):
            return Rewritten(new + (f"?{kept}" if kept else ""), "", status, True, steps=tuple(steps))
        path, query = new, kept
        if item.flag:
            return Rewritten(path, query, 0, True, item.flag == "break", tuple(steps))
    return Rewritten(path, query, changed=changed, steps=tuple(steps))


def _replaced(item: Rewrite, values: dict[str, str], captures: frozenset[str]) -> tuple[str, str]:
    """Return the new path of a rewrite, and the query of its replacement. The query ends in `?` if the replacement
    does; the original query is then dropped.
    """
    parts = variables.parse(item.replacement, "/", captures=captures)
    text = "".join(part if isinstance(part, str) else values.get(part.name, "") for part in parts)
    path, mark, own = text.partition("?")
    return path, own if own or not mark else "?"


@dataclass(frozen=True)
class Moved:
    """Result of all rewrites of a request: the final path and its location. `status`: status of a redirect to `path`,
    500 for a rewrite loop, else 0.
    """

    path: str
    query: str
    choice: Choice
    place: Place | None
    status: int = 0
    stays: bool = False
    steps: tuple[str, ...] = ()


def rewritten(block: ServerBlock, found: Locations, path: str, query: str, known: dict[str, str]) -> Moved:
    """Apply the server block's rewrites, then those of each location that is chosen for the resulting path."""
    first = apply(block.rewrites, path, query, known)
    path, query, steps = first.path, first.query, first.steps
    choice = choose(found, path)
    place: Place | None = None
    if first.status:
        return Moved(path, "", choice, None, first.status, steps=steps)
    for _ in range(ROUNDS + 1):
        place = choice.place
        if place is None or choice.slash or not place.location.rewrites:
            return Moved(path, query, choice, place, steps=steps)
        own = apply(place.location.rewrites, path, query, known)
        path, query = own.path, own.query
        steps += tuple(f"location {place.label}: {step}" for step in own.steps)
        if own.status or own.stays or not own.changed:
            return Moved(path, query, choice, place, own.status, own.stays, steps)
        choice = choose(found, path)
    return Moved("", "", choice, place, 500, steps=steps)  # reported for the location whose rewrites ran last
