"""Requests that prove that a site responds: one for every listen of every server block. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from agents.protocol import Probe
from panel.rendering.spec import Listen, ServerBlock, SiteSpec

MAX_GUARDS = 24  # other sites checked before and after; each costs a request on the host


def host_for(block: ServerBlock) -> str | None:
    """A name that this block handles; None if it has only regular expressions."""
    for name in block.names:
        if name.startswith("~"):
            continue
        if name.startswith("*."):
            return "probe" + name[1:]
        if name.startswith("."):
            return name[1:]
        return name[:-1] + "invalid" if name.endswith(".*") else name
    return None if block.names else "localhost"


def connect_to(listen: Listen) -> str:
    if listen.address in ("", "0.0.0.0"):  # noqa: S104 - compared with, not bound to
        return "127.0.0.1"
    return "::1" if listen.address == "::" else listen.address


def probes_of(spec: SiteSpec, path: str) -> list[Probe]:
    """A request for `path` to every listen of every block, by one of its names. Any status below 500 passes."""
    probes = []
    for block in spec.blocks:
        host = host_for(block)
        for listen in block.listens:
            if host is None and not listen.default_server:
                continue
            name = host or "localhost"
            probes.append(Probe(connect_to(listen), listen.port, name, path=path, tls=listen.tls))
    return list(dict.fromkeys(probes))


def guards_of(sites: Iterable[tuple[SiteSpec, str]]) -> list[Probe]:
    """One request for each of the other sites (spec, health path), limited to MAX_GUARDS."""
    guards: list[Probe] = []
    for spec, path in sites:
        if len(guards) == MAX_GUARDS:
            break
        guards.extend(probes_of(spec, path)[:1])
    return guards
