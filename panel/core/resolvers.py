"""DNS resolvers that the panel uses."""

from __future__ import annotations

import dns.nameserver
import dns.resolver
from django.conf import settings

from panel.core.errors import ApplicationError


def resolver(lifetime_s: float = 10.0) -> dns.resolver.Resolver:
    """Return a DNS resolver with the servers of the panel's host, or with those in PADDOCK_DNS_RESOLVERS.
    A query ends after `lifetime_s` seconds.
    """
    found = dns.resolver.Resolver(configure=not settings.DNS_RESOLVERS)
    if settings.DNS_RESOLVERS:
        places = [place_of(text, 53) for text in settings.DNS_RESOLVERS]
        found.nameservers = [dns.nameserver.Do53Nameserver(address, port) for address, port in places]
    found.lifetime = lifetime_s
    found.cache = None
    return found


def place_of(text: str, port: int) -> tuple[str, int]:
    """Parse `host`, `host:port`, `[::1]:port` or an IPv6 address; return (host, port), with `port` if the text has
    none.

    Raises ApplicationError for an invalid port.
    """
    if text.startswith("["):
        host, _bracket, rest = text[1:].partition("]")
        text_port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _colon, text_port = text.partition(":")
    else:
        host, text_port = text, ""
    if text_port and not (text_port.isdecimal() and 0 < int(text_port) < 65536):
        raise ApplicationError(f"“{text}” has no valid port.", field="server")
    return host, int(text_port or port)
