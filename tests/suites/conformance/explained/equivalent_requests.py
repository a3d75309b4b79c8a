"""Requests as OpenLiteSpeed takes them: what it answers must be nginx's answer to the other spelling.

So such a request is compared as any other is, and not excused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.suites.conformance.wire import Request


@dataclass(frozen=True)
class Taken:
    """`as_`: the request that it is taken for, or the same."""

    name: str
    text: str
    as_: Callable[[Request], Request]
    sometimes: bool = False  # of some paths only
    engines: tuple[str, ...] = ("openlitespeed",)


def _without_dot(request: Request) -> Request:
    if request.host is None:
        return request
    name, colon, port = request.host.partition(":")
    return replace(request, host=f"{name.removesuffix('.')}{colon}{port}")


def _path(change: Callable[[str], str]) -> Callable[[Request], Request]:
    def changed(request: Request) -> Request:
        path, mark, query = request.target.partition("?")
        return replace(request, target=change(path) + mark + query)

    return changed


def _origin_form(request: Request) -> Request:
    found = re.match(r"http://[^/?#]*", request.target)
    return replace(request, target=request.target[found.end() :] or "/") if found else request


def _final_dots(path: str) -> str:
    """nginx resolves them always, so letters stand in their place."""
    return re.sub(r"/(\.\.?)$", lambda found: "/" + "_" * len(found[1]), path)


TAKEN = (
    Taken(
        "absolute form",
        "A request target with scheme and host (as sent to forward proxies) goes to the site of the Host header, and "
        "reaches an application as it came; nginx takes scheme and host off, and goes by that host.",
        _origin_form,
    ),
    Taken(
        "final dot",
        "The dot that may end a Host is passed on to applications, stands in redirects to folders, and keeps cached "
        "responses apart; nginx takes it off.",
        _without_dot,
        sometimes=True,
    ),
    Taken(
        "fragment",
        "Where the path is an application's, or holds an encoded # or %25, a # in a request target is a letter of it; "
        "nginx cuts the target there. No browser sends one.",
        _path(lambda path: path.replace("#", "%23")),
        sometimes=True,
    ),
    Taken(
        "final dot segment",
        "A path that ends in /.. or /. is not resolved where it is an application's, holds %3F, %23 or %25, or the "
        "request changes something: it is redirected to with a final / where it leads to a folder, and else looked for "
        "as any other name.",
        _path(_final_dots),
        sometimes=True,
    ),
    Taken(
        "? in a path",
        "Where a fallback or a rewrite answers a path that holds %3F, what follows is its query, or it is refused with "
        "400 or 403; nginx takes it for a part of the path.",
        lambda request: replace(request, target=request.target.replace("%3F", "?", 1)),
        sometimes=True,
    ),
    Taken(
        "? in a name",
        "A file with a ? in its name is not found, so that a fallback answers.",
        lambda request: replace(request, target=request.target.replace("%3F", "%3F%3F", 1)),  # no file has two
        sometimes=True,
    ),
)


@dataclass(frozen=True)
class Twin:
    """What a request may be taken for, and by which habits."""

    request: Request
    names: tuple[str, ...]

    @property
    def asked(self) -> tuple[Request, Request]:
        """What nginx is asked: the request, and the same with GET."""
        plain = self.request.method in ("GET", "HEAD")
        return self.request, self.request if plain else replace(self.request, method="GET", body="")


def twins(request: Request) -> list[Twin]:
    """The request that OpenLiteSpeed takes this for; those before a habit too that holds of some paths."""
    found = [Twin(request, ())]
    for item in TAKEN:
        changed = [(twin, Twin(item.as_(twin.request), (*twin.names, item.name))) for twin in found]
        found = [each for twin, other in changed for each in _of(item, twin, other)]
    return found


def _of(item: Taken, twin: Twin, other: Twin) -> list[Twin]:
    if other.request == twin.request:
        return [twin]
    return [twin, other] if item.sometimes else [other]
