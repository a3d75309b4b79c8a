"""Domain names of a plan that DNS does not point to the host: a warning before visitors miss the site."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import dns.exception
import dns.resolver

from panel.core.resolvers import resolver
from panel.deployments.plan import PlanWarning
from panel.deployments.planning.changes import Change
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Host
from panel.rendering import names as server_names
from panel.rendering.spec import SiteSpec

MOST_NAMES = 20  # of one plan
LOOK_S = 2.0
# Names that no public DNS resolves (RFC 6761, RFC 6762).
_RESERVED = ("example", "example.com", "example.net", "example.org", "invalid", "local", "localhost", "test")


def new_names(changes: Iterable[Change]) -> list[tuple[str, str]]:
    """Site and name of each exact domain name that these changes bring, the first MOST_NAMES of them."""
    found: list[tuple[str, str]] = []
    for change in changes:
        if change.new is None:
            continue
        before = set(_names(spec_of(change.old))) if change.old else set()
        found += [(change.site.name, name) for name in _names(spec_of(change.new)) if name not in before]
    return found[:MOST_NAMES]


def _names(spec: SiteSpec) -> list[str]:
    names = [name.lower() for block in spec.blocks for name in block.names if server_names.kind(name) == "exact"]
    return [name for name in dict.fromkeys(names) if "." in name and not _is_special(name)]


def _is_special(name: str) -> bool:
    if any(name == end or name.endswith(f".{end}") for end in _RESERVED):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def names_elsewhere(host: Host, names: Sequence[tuple[str, str]]) -> list[PlanWarning]:
    """Warnings about names that do not exist, or that lead to other addresses than the host's. Makes no query.

    Names whose lookup fails are left out, and so are addresses if the host has no public one that Paddock knows: it may
    be behind a NAT.
    """
    if not names:
        return []
    known = _addresses_of(host)
    with ThreadPoolExecutor(len(names), thread_name_prefix="names") as threads:
        answers = list(threads.map(_resolved, [name for _site, name in names]))
    found = []
    for (site, name), addresses in zip(names, answers, strict=True):
        words = _words(host, name, addresses, known)
        if words:
            found.append(PlanWarning(site, "", *words, is_observed=True))
    return found


def _words(host: Host, name: str, addresses: list[str] | None, known: set[str]) -> tuple[str, str] | None:
    public = sorted(address for address in known if ipaddress.ip_address(address).is_global)
    if addresses is None:
        return None
    if not addresses:
        where = f" ({', '.join(public)})" if public else ""
        return (
            f"The domain name {name} has no address in DNS.",
            f"Add an A or AAAA record that points to {host}{where}. Until then, visitors cannot use this name.",
        )
    if not public or known.intersection(addresses):
        return None
    return (
        f"The domain name {name} points to {', '.join(addresses[:3])}, not to {host} ({', '.join(public[:3])}).",
        "Change the record, unless a load balancer or a proxy at that address passes requests on to this host.",
    )


def _resolved(name: str) -> list[str] | None:
    """Addresses of a name; None if DNS does not tell in time."""
    asking, until = resolver(LOOK_S), time.monotonic() + LOOK_S
    found: list[str] = []
    for kind in ("A", "AAAA"):
        try:
            answer = asking.resolve(name, kind, lifetime=max(0.1, until - time.monotonic()))
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            continue
        except dns.exception.DNSException:
            return None
        found += sorted(str(row.address) for row in answer)
    return found


def _addresses_of(host: Host) -> set[str]:
    """Literal addresses of a host: those of its interfaces, and the one at which the panel reaches it."""
    found = {str(address) for address in host.facts.get("addresses", ())}
    try:
        found.add(str(ipaddress.ip_address(host.address)))
    except ValueError:
        if host.address:
            found.update(_resolved(host.address) or ())
    return {address for address in found if _is_literal(address)}


def _is_literal(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
