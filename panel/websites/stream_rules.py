"""Rules for stream servers: their names for TLS, the fields of one stream server, and the ports that they share with
other sites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.utils.translation import gettext as _

from panel.rendering.confined import AUTHORITIES
from panel.rendering.roots import is_below
from panel.websites import validators
from panel.websites.address_names import is_ipv4

if TYPE_CHECKING:
    from panel.websites.models import StreamRoute, StreamServer

MAX_ROUTES = 500  # of a stream server; each becomes a line of a map
ALL = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


def tls_name_normalized(value: str) -> str:
    """Return the name of a TLS server in its DNS form. Raises ValidationError for anything else, such as an address,
    which TLS clients never send as a name (RFC 6066, 3).
    """
    name = validators.domain_normalized(value)
    if is_ipv4(name):
        raise ValidationError(_("%s is an address. Enter a domain name, for example mail.example.com.") % value)
    return name


def validate_tls_name(value: str) -> None:
    tls_name_normalized(value)


def route_name_normalized(value: str) -> str:
    """Return the name of a route in its stored form: `mail.example.com` or `*.example.com`."""
    if value.startswith("*."):
        return "*." + tls_name_normalized(value[2:])
    if "*" in value:
        raise ValidationError(_("In %s, * must be the complete first part, for example *.example.com.") % value)
    return tls_name_normalized(value)


def validate_route_name(value: str) -> None:
    route_name_normalized(value)


def check_stream_server(row: StreamServer) -> None:
    """Raise ValidationError if fields of a stream server contradict each other, such as UDP and the PROXY protocol."""
    faults: dict[str, str] = {}
    try:
        upstream = row.upstream
    except ObjectDoesNotExist:
        return  # reported as missing
    if upstream.site_id != row.site_id:
        faults["upstream"] = _("Choose an upstream of this site.")
    elif row.protocol == "udp" and any(server.address.startswith("unix:") for server in upstream.servers.all()):
        faults["upstream"] = _("This upstream has a socket. UDP needs servers with addresses and ports.")
    if row.protocol == "udp" and row.proxy_protocol:
        faults["proxy_protocol"] = _("The PROXY protocol is only for TCP. Turn it off, or choose TCP.")
    if row.protocol == "udp" and row.connect_timeout_s is not None:
        faults["connect_timeout_s"] = _("UDP has no connections. Clear the field, or choose TCP.")
    faults |= _tls_faults(row)
    if faults:
        raise ValidationError(faults)


def _tls_faults(row: StreamServer) -> dict[str, str]:
    faults: dict[str, str] = {}
    if row.protocol == "udp" and row.certificate_id is not None:
        faults["certificate"] = _("TLS is only for TCP. Choose no certificate, or choose TCP.")
    if row.protocol == "udp" and row.upstream_tls:
        faults["upstream_tls"] = _("TLS is only for TCP. Turn it off, or choose TCP.")
    if not row.upstream_tls:
        words = _("This field is only for upstreams with TLS. Turn on TLS to the upstream, or clear the field.")
        faults |= {name: words for name in ("upstream_tls_name", "upstream_tls_ca") if getattr(row, name)}
    elif row.upstream_tls_ca and not row.upstream_tls_name:
        faults["upstream_tls_name"] = _("Enter the name that the upstream's certificate must have.")
    if row.upstream_tls_ca and not is_below(row.upstream_tls_ca, (*AUTHORITIES, *_site_roots(row))):
        folders = ", ".join((*AUTHORITIES, *_site_roots(row)))
        faults["upstream_tls_ca"] = _("Choose a file in one of these folders: %s.") % folders
    return faults


def _site_roots(row: StreamServer) -> list[str]:
    web_server = row.site.web_server
    return [root for root in web_server.host.site_roots if root] if web_server else []


def check_routes(row: StreamServer, routes: Sequence[StreamRoute]) -> None:
    """Raise ValidationError if the names of a stream server contradict each other or its other fields."""
    names = [route.name for route in routes]
    if len(names) > MAX_ROUTES:
        raise ValidationError({"routes": _("Enter at most %d names.") % MAX_ROUTES})
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise ValidationError({"routes": _("%s appears twice.") % twice})
    if routes and row.protocol == "udp":
        raise ValidationError({"routes": _("UDP has no TLS server names. Remove the names, or choose TCP.")})
    if routes and (row.certificate_id is not None or row.upstream_tls):
        words = _(
            "To choose an upstream by the name, the web server passes TLS on unchanged. Remove the names, or choose no "
            "certificate and no TLS to the upstream."
        )
        raise ValidationError({"routes": words})


@dataclass(frozen=True)
class Port:
    """A port that a site uses with one transport protocol. `where`: its place in the site's definition."""

    protocol: str
    address: str
    port: int
    where: str = ""

    def overlaps(self, other: Port) -> bool:
        """Return whether this port and the other port conflict.

        Ports conflict if they have the same protocol, number and IP version, and if their addresses are equal or one of
        them means all addresses.
        """
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        if (":" in self.address) != (":" in other.address):
            return False
        return self.address == other.address or self.address in ALL or other.address in ALL


def stream_ports(rows: Iterable[StreamServer]) -> list[Port]:
    """Return one Port for each stream server, in the same order."""
    return [Port(row.protocol, row.address, row.port, f"stream_servers/{n}/port") for n, row in enumerate(rows)]


def listen_ports(blocks: Sequence[Any]) -> Iterator[Port]:
    """Yield the ports of server blocks: TCP, and UDP for HTTP/3."""
    for index, block in enumerate(blocks):
        for listen in block.listens.all():
            yield from ports_of_listen(listen, f"blocks/{index}/listens")


def ports_of_listen(listen: Any, where: str = "") -> Iterator[Port]:
    yield Port("tcp", listen.address, listen.port, where)
    if listen.http3:
        yield Port("udp", listen.address, listen.port, where)
