"""Every address of the URLconf, filled so that it leads to a row of the world (tests/suites/security/world.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from tests.suites.security import world


@dataclass(frozen=True)
class Address:
    path: str
    name: str

    def __str__(self) -> str:
        return self.path


def _text(pattern: object) -> str:
    """A pattern as text with <name> in place of what varies."""
    if isinstance(pattern, RoutePattern):
        return re.sub(r"<(?:\w+:)?(\w+)>", r"<\1>", str(pattern))
    text = str(pattern).removeprefix("^").removesuffix("$").removesuffix(r"\Z")
    while "(?P<" in text:
        start = text.index("(?P<")
        name = text[start + 4 : text.index(">", start)]
        depth, end = 0, start
        for end in range(start, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
        text = f"{text[:start]}<{name}>{text[end + 1 :]}"
    return text.replace("\\", "")


def _walk(patterns: list[URLPattern | URLResolver], prefix: str, space: str) -> Iterator[Address]:
    for item in patterns:
        here = prefix + _text(item.pattern)
        if isinstance(item, URLResolver):
            inner = f"{space}{item.namespace}:" if item.namespace else space
            yield from _walk(item.url_patterns, here, inner)
        else:
            yield Address(fill(here), f"{space}{item.name or ''}")


def fill(route: str) -> str:
    """The route with the keys of the world's rows."""
    uuid = world.DEPLOYMENT
    if "reports/" in route:
        uuid = world.REPORT
    elif "suites/" in route:
        uuid = world.SUITE
    elif "runs/" in route or route.startswith("benchmarks"):
        uuid = world.RUN
    elif "comparisons/" in route:
        uuid = world.COMPARISON
    elif "host-jobs/" in route:
        uuid = world.OPERATION
    elif "imports/" in route:
        uuid = world.IMPORT
    elif "rollouts/" in route and "rollouts/start/" not in route:
        uuid = world.ROLLOUT
    elif "publications/" in route or route.startswith("content/<uuid"):
        uuid = world.PUBLICATION
    elif "previews/" in route and "previews/request/" not in route:
        uuid = world.PREVIEW
    name = world.HOST if re.match(r"(api/v1/)?hosts/", route) else world.NAME
    values = {
        "pk": str(world.KEY),
        "id": str(world.KEY),
        "uuid": str(uuid),
        "name": world.ADDRESS if "virtual-addresses/" in route else name,
        "host": world.HOST,
        "site": world.NAME,
        "number": "1",
        "target": "0",
        "secret": "guess",
        "kind": "scenario" if "schedules/" in route else "rfc2136" if "dns/add" in route else "invalid",
        "form": "html",
        "engine": "nginx",
        "application": "wordpress",
    }
    return "/" + re.sub(r"<(\w+)>", lambda match: values.get(match[1], "1"), route)


def addresses() -> list[Address]:
    found = list(_walk(get_resolver().url_patterns, "", ""))
    assert len(found) > 80, "the URLconf was not walked"
    return found


API = "/api/v1/"
# What whoever is not signed in may ask for: none of it shows data.
PUBLIC = {
    "accounts:link",
    "accounts:forgotten",
    "accounts:login",
    "accounts:code",
    "accounts:setup",
    "enrollments:enroll",
    "enrollments:ready",
    "health",
    "ready",
    "api:nothing",
}
