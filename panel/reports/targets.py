"""Where a webhook may go: an http or https address of a public machine (docs/threats.md, SSRF).

The name is resolved once, every address it has is judged, and the connection goes to one of those that were: a name
that means something else a moment later (rebinding) leads nowhere. PADDOCK_WEBHOOK_NETWORKS opens networks of one's
own.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from panel.core.errors import ApplicationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class WebhookUrl:
    scheme: str
    host: str  # as TLS and Host want it, without brackets
    port: int
    path: str  # with its query

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def check_url(text: str) -> WebhookUrl:
    """The parts of `text`. ApplicationError, field `webhook_url`, when it cannot be a webhook's."""
    if any(not character.isprintable() or character.isspace() or ord(character) > 126 for character in text):
        raise _refused("contains a space, a control character or a letter that must be written as %XX")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _refused("is not an address") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise _refused("does not begin with https:// or http:// and a name")
    if parts.username is not None or parts.password is not None:
        raise _refused("holds a user name; the signature tells the receiver who sent it")
    if parts.fragment:
        raise _refused("has a part after #, which no server sees")
    if _literal(parts.hostname) is not None:
        _judge(parts.hostname, [parts.hostname])
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)


def resolve(url: WebhookUrl) -> str:
    """An address that may be connected to. ApplicationError when the name has none, or any that may not."""
    try:
        found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ApplicationError(f"{url.host} is not found: {error}", field="webhook_url", retry=True) from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    _judge(url.host, addresses)
    return addresses[0]


def _judge(host: str, addresses: list[str]) -> None:
    for text in addresses:
        address = _literal(text)
        if address is None or not is_allowed(address):
            raise _refused(
                f"leads to {host} ({text}), which is not a public address. An administrator of the panel's machine can "
                f"allow its network with PADDOCK_WEBHOOK_NETWORKS"
            )


def _literal(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def is_allowed(address: Address) -> bool:
    """Public, or in one of the networks that were opened. IPv4 inside IPv6 is judged as what it stands for."""
    inner = _embedded(address)
    if any(one in network for network in _opened() for one in (address, inner) if one.version == network.version):
        return True
    return all(one.is_global and not one.is_multicast and not one.is_reserved for one in {address, inner})


def _embedded(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    nat64 = ipaddress.ip_network("64:ff9b::/96")
    if address in nat64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _opened() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(text) for text in settings.WEBHOOK_NETWORKS]


def _refused(why: str) -> ApplicationError:
    return ApplicationError(f"This address {why}.", field="webhook_url")
