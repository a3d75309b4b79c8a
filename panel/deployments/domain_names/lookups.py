"""Look up domain names in DNS and the IP addresses of hosts."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable

import dns.exception
import dns.resolver

from panel.core.resolvers import resolver
from panel.hosts.models import Host
from panel.rendering import names as server_names

LOOK_S = 2.0
# Names that no public DNS resolves (RFC 6761, RFC 6762).
_RESERVED = ("example", "example.com", "example.net", "example.org", "invalid", "local", "localhost", "test")


def names_of(blocks: Iterable[Iterable[str]]) -> list[str]:
    """Return the server names that public DNS can resolve: exact names, without IP addresses and reserved names."""
    names = [name.lower() for block in blocks for name in block if server_names.kind(name) == "exact"]
    return [name for name in dict.fromkeys(names) if "." in name and not _is_special(name)]


def _is_special(name: str) -> bool:
    if any(name == end or name.endswith(f".{end}") for end in _RESERVED):
        return True
    return _is_literal(name)


def resolved(name: str) -> list[str] | None:
    """Return the IP addresses of a domain name, [] if it has none; None if DNS fails or takes longer than LOOK_S."""
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


def addresses_of(host: Host) -> set[str]:
    """Return the IP addresses of a host: of its interfaces, and of the address at which the panel reaches it."""
    found = {str(address) for address in host.facts.get("addresses", ())}
    try:
        found.add(str(ipaddress.ip_address(host.address)))
    except ValueError:
        if host.address:
            found.update(resolved(host.address) or ())
    return {address for address in found if _is_literal(address)}


def _is_literal(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def public_of(addresses: Iterable[str]) -> list[str]:
    """Return the given IP addresses that are public (reachable from the internet), sorted as text."""
    return sorted(address for address in addresses if ipaddress.ip_address(address).is_global)
