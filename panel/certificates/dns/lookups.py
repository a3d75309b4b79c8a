"""DNS lookups: the zone of a name, its authoritative servers, and TXT records at each server."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rdatatype
import dns.resolver
from django.conf import settings

from panel.core.errors import ApplicationError
from panel.core.resolvers import resolver
from panel.core.webhooks import is_allowed

TIMEOUT_S = 5.0
MOST_ALIASES = 8
PREFIX = "_acme-challenge."


@dataclass(frozen=True)
class Server:
    """One address of an authoritative DNS server."""

    name: str
    address: str

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


@dataclass(frozen=True)
class Zone:
    name: str
    servers: tuple[Server, ...]


def challenge_name(name: str) -> str:
    """Return the name of the TXT record that proves a domain name; the same for `*.example.com` and `example.com`."""
    return PREFIX + name.removeprefix("*.").rstrip(".").lower()


def record_name(name: str) -> str:
    """Return the name of the TXT record that proves a domain name, after following CNAME records (RFC 8555 section
    8.4). Raises ApplicationError if DNS does not respond, or if there are too many CNAME records.
    """
    asking, found = resolver(), challenge_name(name)
    for _ in range(MOST_ALIASES):
        try:
            answer = asking.resolve(found, "CNAME")
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return found
        except dns.exception.DNSException as error:
            raise unknown(found, error) from error
        found = str(answer[0].target).rstrip(".").lower()
    raise ApplicationError(
        f"{challenge_name(name)} leads through more than {MOST_ALIASES} aliases (CNAME records). "
        "Shorten the chain of aliases."
    )


def zone_of(name: str) -> Zone:
    """Return the DNS zone that contains a name, with every address of its authoritative servers.

    Raises ApplicationError if DNS does not respond, or has no such zone or no address of its servers.
    """
    asking = resolver()
    try:
        zone = dns.resolver.zone_for_name(name, resolver=asking)
        servers = [str(row.target).rstrip(".") for row in asking.resolve(zone, "NS")]
    except dns.exception.DNSException as error:
        raise unknown(name, error) from error
    if str(zone) == ".":
        raise ApplicationError(f"DNS has no zone that contains {name}. Check the domain name.", retry=True)
    found = [Server(server, address) for server in sorted(servers) for address in _addresses(asking, server)]
    if not found:
        raise ApplicationError(
            f"The authoritative DNS servers of {zone} have no address. Check the NS records of the zone.", retry=True
        )
    return Zone(str(zone).rstrip("."), tuple(found))


def _addresses(asking: dns.resolver.Resolver, name: str) -> list[str]:
    """Return the IPv4 addresses of a server; its IPv6 addresses if it has no IPv4 address."""
    for kind in ("A", "AAAA"):
        try:
            return sorted(str(row.address) for row in asking.resolve(name, kind))
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            continue
        except dns.exception.DNSException as error:
            raise unknown(name, error) from error
    return []


def lacking(zone: Zone, name: str, values: Sequence[str]) -> list[str]:
    """Return the authoritative servers of the zone that do not respond with all of the given TXT values, each as text
    with the reason.
    """
    found = []
    for server in zone.servers:
        problem = _problem(server, name, values)
        if problem:
            found.append(f"{server} {problem}")
    return found


def _problem(server: Server, name: str, values: Sequence[str]) -> str:
    if not is_allowed(ipaddress.ip_address(server.address)):
        return "has no public address. The panel's operator can allow the network in PADDOCK_WEBHOOK_NETWORKS"
    try:
        present = texts_at(server.address, name)
    except (dns.exception.DNSException, OSError) as error:
        return f"does not respond ({type(error).__name__})"
    missing = [value for value in values if value not in present]
    return "does not have the record yet" if missing else ""


def texts_at(address: str, name: str) -> list[str]:
    """Return the TXT values of a name from one authoritative server, without recursion.

    Raises DNSException or OSError if the server sends no valid response.
    """
    question = dns.message.make_query(name, dns.rdatatype.TXT, flags=0)
    answer, _is_tcp = dns.query.udp_with_fallback(
        question, address, timeout=TIMEOUT_S, port=settings.DNS_PORT, ignore_unexpected=True
    )
    rows = [row for rrset in answer.answer if rrset.rdtype == dns.rdatatype.TXT for row in rrset]
    return [b"".join(row.strings).decode("ascii", "replace") for row in rows]


def unknown(name: str, error: Exception) -> ApplicationError:
    return ApplicationError(f"Paddock cannot look up {name} in DNS: {error or type(error).__name__}", retry=True)
