"""Refuse plans with upstream servers whose names resolve, on the host, to addresses that no site may use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agents.host import addresses
from panel.core.errors import ApplicationError
from panel.deployments.planning.changes import Change
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Host
from panel.rendering.claims import spec_claims


def names_of(changes: Iterable[Change]) -> set[str]:
    """Return the host names in upstream servers and PHP pools of all sites that the changes deploy."""
    return {name for change in changes for name, _where in _named(change)}


def _named(change: Change) -> Iterator[tuple[str, str]]:
    """Yield (name, place) for each host name in the proxy targets of a change. The place is the name of an upstream or
    PHP pool, or "raw directives". An IP address is yielded only if sites must not use it.
    """
    if change.new is None:
        return
    spec = spec_of(change.new)
    places = [(server.address, upstream.name) for upstream in spec.upstreams for server in upstream.servers]
    places += [(pool.address, pool.name) for pool in spec.php_pools]
    for claim in spec_claims(spec, change.new.web_server.engine):
        if claim.where.endswith("/snippets"):
            places.append((claim.value, "the raw directives"))
    for address, where in places:
        name = "" if address.startswith("unix:") else address.rpartition(":")[0]
        if name in ("", "localhost"):
            continue
        if addresses.packed(name) is None or addresses.why_refused(name):
            yield name.strip("[]"), where


def refuse(host: Host, changes: Sequence[Change], refused: Mapping[str, str]) -> None:
    """Raise ApplicationError if the changes deploy a proxy target whose host name is in `refused` (name -> reason)."""
    for change in changes:
        for name, where in _named(change):
            if name in refused:
                raise ApplicationError(
                    f"Site {change.site.name}: {where} cannot be deployed on {host.name} because on this host, "
                    f"{refused[name]}, which no site may use. Choose another server for {where}.",
                    code="refused_address",
                )
