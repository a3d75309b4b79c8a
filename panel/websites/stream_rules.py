"""Rules for stream servers: within one stream server, and between the ports of stream servers and of other sites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from panel.websites.models import StreamServer

ALL = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


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
    if faults:
        raise ValidationError(faults)


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
