"""Requests as OpenLiteSpeed takes them: what it answers must be nginx's answer to the other spelling.

So such a request is compared as any other is, and not excused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.conformance.wire import Request


@dataclass(frozen=True)
class Taken:
    """`as_`: the request that it is taken for, or the same."""

    name: str
    text: str
    as_: Callable[[Request], Request]
    sometimes: bool = False  # of some paths only
    engines: tuple[str, ...] = ("openlitespeed",)


def _without_dot(request: Request) -> Request:
    name, colon, port = (request.host or "").partition(":")
    return replace(request, host=f"unknown.invalid{colon}{port}") if name.endswith(".") else request


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
        "A Host that ends in a dot is a name of its own, which the default server answers; nginx takes no notice of "
        "the dot.",
        _without_dot,
    ),
    Taken(
        "fragment",
        "A # in a request target is a letter of the path; nginx cuts the target there. No browser sends one.",
        _path(lambda path: path.replace("#", "%23")),
    ),
    Taken(
        "final dot segment",
        "A path that ends in /.. or /. is not resolved: it is redirected to with a final / where it leads to a folder, "
        "and else looked for as any other name.",
        _path(_final_dots),
    ),
    Taken(
        "encoded line feed",
        "In a path that ends in %0A, $ in a location's expression matches at the very end only; on nginx also before "
        "the final line feed.",
        _path(lambda path: f"{path}%0A" if path.endswith("%0A") else path),  # before two of them nginx's does not match
        sometimes=True,
    ),
    Taken(
        "? in a path",
        "Where a fallback or a rewrite answers a path that holds %3F, what follows is its query, or it is refused with "
        "403 or 404; nginx takes it for a part of the path.",
        lambda request: replace(request, target=request.target.replace("%3F", "?", 1)),
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
    names: list[str] = []
    found: list[Twin] = []
    for item in TAKEN:
        other = item.as_(request)
        if item.sometimes and other != request:
            found.append(Twin(request, tuple(names)))
        if other != request:
            names.append(item.name)
            request = other
    return [*found, Twin(request, tuple(names))]
