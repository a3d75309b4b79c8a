"""TLS listeners that must present a certificate, and their addresses for the panel. Pure: no I/O."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from panel.rendering import names as server_names
from panel.rendering.spec import Listen, SiteSpec

WILDCARD_LABEL = "paddock-check"


@dataclass(frozen=True)
class Listener:
    """One socket of a site, with one name to request in the handshake.

    `name` is "" for stream servers, which have no names. `address` is the address to which the panel connects; "" if
    the panel cannot reach the listener.
    """

    name: str
    address: str
    port: int
    is_quic: bool
    label: str

    @property
    def shown_name(self) -> str:
        """The name for messages."""
        return self.name or "any name"


def exact_names(names: tuple[str, ...]) -> list[str]:
    """Return the names of a server block that a certificate can have with HTTP-01: those without wildcards."""
    found: list[str] = []
    for name in names:
        kind = server_names.kind(name)
        if kind == "exact":
            found.append(name.lower().strip("[]"))  # an IPv6 address as it is in a certificate
        elif kind == "dot":
            found.append(name[1:].lower())
    return list(dict.fromkeys(found))


def wildcard_names(names: tuple[str, ...]) -> list[str]:
    """Return the wildcard names that a certificate can have with DNS-01, in the form `*.example.com`.
    `.example.com` counts as `*.example.com`.
    """
    kinds = [(server_names.kind(name), name.lower()) for name in names]
    return [name if kind == "leading" else f"*{name}" for kind, name in kinds if kind in ("leading", "dot")]


def site_names(spec: SiteSpec, *, wildcards: bool = False) -> list[str]:
    """Return every exact name of the site, each once, in order; with `wildcards` also the wildcard names."""
    found = [name for block in spec.blocks for name in exact_names(block.names)]
    if wildcards:
        found += [name for block in spec.blocks for name in wildcard_names(block.names)]
    return list(dict.fromkeys(found))


def _asked_names(names: tuple[str, ...], *, wildcards: bool) -> list[str]:
    """Return the names to request from a listener; for each wildcard name, an example that it covers."""
    made = [name.replace("*", WILDCARD_LABEL, 1) for name in wildcard_names(names)] if wildcards else []
    return [*exact_names(names), *made]


def listeners_of(
    spec: SiteSpec, certificate_path: str, host_address: str, *, wildcards: bool = False
) -> list[Listener]:
    """Return the TLS listeners of the server blocks and stream servers that use the certificate: one `Listener` for
    each socket and name. `host_address` is the address at which the panel reaches the host, "" for the panel's own
    host.
    """
    found: dict[tuple[str, str, int, bool], Listener] = {}
    for block in spec.blocks:
        if block.tls is None or block.tls.certificate_path != certificate_path:
            continue
        for listen in block.listens:
            for name in _asked_names(block.names, wildcards=wildcards) if listen.tls else ():
                for item in _sockets(listen, name, host_address):
                    found[item.name, item.label, item.port, item.is_quic] = item
    return [*found.values(), *_stream_listeners(spec, certificate_path, host_address)]


def _stream_listeners(spec: SiteSpec, certificate_path: str, host_address: str) -> Iterator[Listener]:
    """Yield the TLS listeners of stream servers that use the certificate. Those with allowed addresses are left out:
    they may refuse the panel.
    """
    for row in spec.stream_servers:
        if row.tls and row.tls.certificate_path == certificate_path and not row.allowed:
            yield from _sockets(Listen(row.port, row.address), "", host_address)


def _sockets(listen: Listen, name: str, host_address: str) -> Iterator[Listener]:
    address = reached(listen.address, host_address)
    shown = listen.address or "*"
    where = f"[{shown}]:{listen.port}" if ":" in shown else f"{shown}:{listen.port}"
    yield Listener(name, address, listen.port, False, f"TCP {where}")
    if listen.http3:
        yield Listener(name, address, listen.port, True, f"UDP {where}")


def reached(address: str, host_address: str) -> str:
    """Return the address to which the panel connects to reach a listener on `address`; "" for a loopback address of
    another host.
    """
    if address in ("", "0.0.0.0"):  # noqa: S104 - compared with, not bound to
        return host_address or "127.0.0.1"
    if address == "::":
        return host_address or "::1"
    if ipaddress.ip_address(address).is_loopback and host_address:
        return ""
    return address
