"""Warn in a plan about new domain names that DNS does not point to the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from panel.deployments.domain_names.lookups import addresses_of, names_of, public_of, resolved
from panel.deployments.plan import PlanWarning
from panel.deployments.planning.changes import Change
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Host
from panel.rendering.spec import SiteSpec

MOST_NAMES = 20  # of one plan


def new_names(changes: Iterable[Change]) -> list[tuple[str, str]]:
    """Return (site name, domain name) for exact domain names that the changes add; at most MOST_NAMES."""
    found: list[tuple[str, str]] = []
    for change in changes:
        if change.new is None:
            continue
        before = set(_names(spec_of(change.old))) if change.old else set()
        found += [(change.site.name, name) for name in _names(spec_of(change.new)) if name not in before]
    return found[:MOST_NAMES]


def _names(spec: SiteSpec) -> list[str]:
    return names_of(block.names for block in spec.blocks)


def names_elsewhere(host: Host, names: Sequence[tuple[str, str]]) -> list[PlanWarning]:
    """Return warnings about domain names that have no IP address in DNS, or only addresses of other machines than the
    host. Makes no database query.

    A name whose lookup fails causes no warning. If Paddock knows no public address of the host, which may be behind a
    NAT, only names without an address cause warnings.
    """
    if not names:
        return []
    known = addresses_of(host)
    with ThreadPoolExecutor(len(names), thread_name_prefix="names") as threads:
        answers = list(threads.map(resolved, [name for _site, name in names]))
    found = []
    for (site, name), addresses in zip(names, answers, strict=True):
        words = _words(host, name, addresses, known)
        if words:
            found.append(PlanWarning(site, "", *words, is_observed=True))
    return found


def _words(host: Host, name: str, addresses: list[str] | None, known: set[str]) -> tuple[str, str] | None:
    public = public_of(known)
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
        "Change the DNS record, unless a load balancer or a proxy at the other address passes requests on to {host}.",
    )
