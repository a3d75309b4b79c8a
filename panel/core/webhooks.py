"""Requests to URLs that users enter, such as webhooks: http or https, and only public hosts (docs/threats.md, SSRF).

The host name is resolved once, all of its addresses are checked, and the connection uses one of them, so DNS rebinding
has no effect. PADDOCK_WEBHOOK_NETWORKS permits private networks.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from agents.host import addresses
from panel.core.errors import ApplicationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_PORTS = {"http": 80, "https": 443}
TIMEOUT_S = 10.0  # for each step: connection, handshake, response
DEADLINE_S = 30.0  # for the whole request, however slow the receiver


@dataclass(frozen=True)
class WebhookUrl:
    scheme: str
    host: str  # for TLS and the Host header, without brackets
    port: int
    path: str  # including the query

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def check_url(text: str) -> WebhookUrl:
    """Parse the URL of a webhook.

    Raises ApplicationError for the field `webhook_url` if the URL is invalid, or not permitted for webhooks.
    """
    if any(not character.isprintable() or character.isspace() or ord(character) > 126 for character in text):
        raise _refused("This URL contains a space, a control character, or a letter that needs percent-encoding (%XX).")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _refused("This URL is not valid. Enter a URL such as https://hooks.example.com/paddock.") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise _refused("This URL does not start with https:// or http:// and a host name.")
    if parts.username is not None or parts.password is not None:
        raise _refused("This URL contains a user name. Use the signature to authenticate Paddock instead.")
    if parts.fragment:
        raise _refused("This URL contains a # fragment, which servers never receive. Remove the fragment.")
    if _literal(parts.hostname) is not None:
        _judge(parts.hostname, [parts.hostname])
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)


def resolve(url: WebhookUrl) -> str:
    """Return an address of the URL's host, to connect to.

    Raises ApplicationError if the name cannot be resolved, or if any of its addresses is forbidden.
    """
    try:
        found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ApplicationError(f"{url.host} cannot be resolved: {error}", field="webhook_url", retry=True) from error
    places = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    _judge(url.host, places)
    return places[0]


def _judge(host: str, places: list[str]) -> None:
    for text in places:
        address = _literal(text)
        if address is None or not is_allowed(address):
            raise _refused(
                f"The host of this URL, {host}, has the address {text}, which is not a public "
                "address. An administrator of the panel's host can allow the network of this address in "
                "PADDOCK_WEBHOOK_NETWORKS."
            )


def _literal(text: str) -> Address | None:
    """Parse an address in any notation that getaddrinfo accepts; None for a name."""
    found = addresses.packed(text)
    return None if found is None else ipaddress.ip_address(found)


def is_allowed(address: Address) -> bool:
    """Return whether the address is public, or in a permitted network; False for metadata services of clouds.
    IPv4 addresses inside IPv6 addresses are checked too.
    """
    if addresses.why_refused(str(address)):
        return False
    carried = [ipaddress.ip_address(form) for form in addresses.carried(address.packed)]
    # A mapped or translated address is equivalent to the IPv4 address.
    is_other_spelling = bool(carried) and (address in _TRANSLATED or address.packed[:10] == bytes(10))
    return all(_is_open(one) for one in (carried if is_other_spelling else [address, *carried]))


def _is_open(address: Address) -> bool:
    if any(address in network for network in _opened() if address.version == network.version):
        return True
    return address.is_global and not address.is_multicast and not address.is_reserved


def _opened() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(text) for text in settings.WEBHOOK_NETWORKS]


def _refused(words: str) -> ApplicationError:
    return ApplicationError(words, field="webhook_url")


class _Plain(http.client.HTTPConnection):
    """HTTP connection to the address that `resolve` checked, even if the host name now resolves to another address."""

    def __init__(self, url: WebhookUrl, address: str) -> None:
        super().__init__(url.host, url.port, timeout=TIMEOUT_S)
        self._address = (address, url.port)

    def connect(self) -> None:
        self.sock = socket.create_connection(self._address, TIMEOUT_S)


class _Tls(_Plain):
    """TLS connection to the address that `resolve` checked.

    The certificate must be valid for the host name and trusted by this machine.
    """

    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def post(url: WebhookUrl, address: str, headers: dict[str, str], body: bytes) -> int:
    """Send a POST request to `address` (from `resolve`); return the status of the response. Redirects are not followed.

    Raises OSError for connection errors, HTTPException for an invalid response.
    """
    connection = (_Tls if url.scheme == "https" else _Plain)(url, address)
    connection.connect()
    alarm = threading.Timer(DEADLINE_S, _cut, (connection.sock,))
    alarm.daemon = True
    alarm.start()
    try:
        connection.putrequest("POST", url.path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": url.authority, **headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        return connection.getresponse().status
    finally:
        alarm.cancel()
        connection.close()


def _cut(open_socket: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the connection may have just ended by itself
        open_socket.shutdown(socket.SHUT_RDWR)
