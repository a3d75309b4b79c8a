"""Requests of a preview: paths from a site's access log and of its locations, for each server name and port. Pure
functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agents.host import busiest, probe
from panel.rendering import names
from panel.rendering.locations import locations_of
from panel.rendering.samples import reaching
from panel.rendering.spec import Listen, ServerBlock, SiteSpec

MOST_LOGGED = 150
MOST_REQUESTS = 600
_LINE = re.compile(r'"(?P<method>GET|HEAD) (?P<target>/[^ "]*) HTTP/[0-9.]+"')
_OWN = probe.AGENT.decode()
_ALL = ("", "::")


@dataclass(frozen=True)
class Listener:
    """A socket that a site listens on. `address` is "" for all IPv4 or all IPv6 addresses."""

    address: str
    port: int
    tls: bool

    @classmethod
    def of(cls, listen: Listen) -> Listener:
        return cls("" if listen.address in _ALL else listen.address, listen.port, listen.tls)


@dataclass(frozen=True)
class Visitor:
    """A way in which visitors reach a server block: one of its server names, and a socket."""

    host: str
    listener: Listener

    @property
    def authority(self) -> str:
        """Host header: the server name, with the port unless it is the scheme's default (RFC 9110 section 7.2)."""
        default = 443 if self.listener.tls else 80
        return self.host if self.listener.port == default else f"{self.host}:{self.listener.port}"

    def url(self, path: str) -> str:
        return f"{'https' if self.listener.tls else 'http'}://{self.authority}{path}"


@dataclass(frozen=True)
class Question:
    """One request that a preview sends to the live version of a site and to its draft."""

    visitor: Visitor
    method: str
    path: str


def logged(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return method and path of the most frequent GET and HEAD requests of an access log, whatever their status.

    Query strings are removed, and paths that look like a secret are left out, because logs contain what visitors sent.
    Requests of Paddock's own checks are left out.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for line in lines:
        found = _LINE.search(line)
        if found is None or _OWN in line:
            continue
        path = found["target"].partition("?")[0]
        if busiest.may_be_asked(path) and not path.startswith("//"):
            counts[found["method"], path] += 1
    return [request for request, _count in counts.most_common(MOST_LOGGED)]


def made(specs: Iterable[SiteSpec]) -> list[str]:
    """Return paths to request in any case: the start page, and one matching path for each location of the site."""
    paths = ["/"]
    for spec in specs:
        for number, block in enumerate(spec.blocks):
            found = locations_of(block, f"/blocks/{number}")
            paths += [path for place in found.places if (path := reaching(place, found))]
    return list(dict.fromkeys(paths))


def visitors(specs: Iterable[SiteSpec]) -> list[Visitor]:
    """Return a Visitor for each socket of each server block, with one of the server block's names."""
    found = [
        Visitor(_name(block), Listener.of(listen))
        for spec in specs
        for block in spec.blocks
        for listen in block.listens
    ]
    return list(dict.fromkeys(found))


def _name(block: ServerBlock) -> str:
    """Return a host name that the server block handles: an exact name, or a name that matches a wildcard.
    "site.invalid" if the server block has neither.
    """
    by_kind = {names.kind(name): name for name in reversed(block.names)}
    if name := by_kind.get("exact"):
        return name
    if name := by_kind.get("dot"):
        return name[1:]
    if name := by_kind.get("leading"):
        return f"www{name[1:]}"
    if name := by_kind.get("trailing"):
        return f"{name[:-1]}example"
    return "site.invalid"


def questions(specs: Sequence[SiteSpec], requests: Sequence[tuple[str, str]]) -> list[Question]:
    """Return the requests of a preview, at most MOST_REQUESTS: each path with every Visitor of the sites.

    First come the requests from the access log (`requests`), then one request to each location.
    """
    asked = list(dict.fromkeys([*requests, *(("GET", path) for path in made(specs))]))
    return list(_limited(asked, visitors(specs)))


def _limited(asked: Sequence[tuple[str, str]], seen: Sequence[Visitor]) -> Iterator[Question]:
    for method, path in asked[: MOST_REQUESTS // max(len(seen), 1)]:
        for visitor in seen:
            yield Question(visitor, method, path)
