"""Render virtual addresses as keepalived's configuration (keepalived.conf(5)): one file per host with all its
addresses.

VRRP version 3 (RFC 5798) over unicast, because clouds and many switches drop multicast.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from panel.rendering.tree import Directive, Node, block, directive, print_tree

CHECK = "/etc/keepalived/paddock-check"  # agents/host/keepalived.py
# The other host takes over 3 intervals after the last advertisement, or at once if the check of the host fails.
INTERVAL_S = 0.5
CHECK_INTERVAL_S, CHECK_TIMEOUT_S, FALL, RISE = 1, 2, 2, 2
FIRST_PRIORITY, STEP = 200, 20


@dataclass(frozen=True)
class Peer:
    """Host of a virtual address, with the IP address from which it sends VRRP messages to the other hosts."""

    host: str
    address: str


@dataclass(frozen=True)
class AddressSpec:
    """Virtual address with its prefix length, and its hosts (`peers`) in the order in which they take the address.

    With `returns`, a host takes the address back from a later host as soon as the check on the earlier host passes.
    """

    name: str
    address: str
    router_id: int
    check_url: str
    returns: bool
    peers: tuple[Peer, ...]

    @property
    def ip(self) -> str:
        return self.address.partition("/")[0]

    def peer(self, host: str) -> Peer:
        return next(peer for peer in self.peers if peer.host == host)

    def as_json(self) -> dict[str, object]:
        """Return the virtual address as a dict of JSON values, which `address_spec` parses."""
        peers = [{"host": peer.host, "address": peer.address} for peer in self.peers]
        return {
            "name": self.name,
            "address": self.address,
            "router_id": self.router_id,
            "check_url": self.check_url,
            "returns": self.returns,
            "peers": peers,
        }


def address_spec(value: Mapping[str, Any]) -> AddressSpec:
    peers = tuple(Peer(peer["host"], peer["address"]) for peer in value["peers"])
    return AddressSpec(value["name"], value["address"], value["router_id"], value["check_url"], value["returns"], peers)


def host_file(specs: Iterable[AddressSpec], host: str, interfaces: Mapping[str, str]) -> str:
    """Return keepalived's file of one host; "" without virtual addresses.

    `interfaces` maps the addresses of the host to network interfaces. Raises KeyError if `interfaces` lacks the address
    from which the host sends for one of `specs`.
    """
    own = sorted((spec for spec in specs if any(peer.host == host for peer in spec.peers)), key=lambda spec: spec.name)
    if not own:
        return ""
    nodes = [node for spec in own for node in _nodes(spec, host, interfaces)]
    return print_tree("keepalived", _line, "paddock.conf.j2", nodes=nodes)


def instance_line(name: str) -> str:
    """Return the line of keepalived's file with which the block of the virtual address `name` begins."""
    return f"vrrp_instance {name} {{"


def _nodes(spec: AddressSpec, host: str, interfaces: Mapping[str, str]) -> list[Node]:
    own = spec.peer(host)
    others = [peer.address for peer in spec.peers if peer is not own]
    priority = FIRST_PRIORITY - STEP * spec.peers.index(own)
    check = [
        directive("script", f'"{CHECK} {spec.check_url}"'),
        directive("interval", CHECK_INTERVAL_S),
        directive("timeout", CHECK_TIMEOUT_S),
        directive("fall", FALL),
        directive("rise", RISE),
        directive("user", "nobody"),
    ]
    instance: list[Node] = [
        directive("state", "BACKUP"),
        directive("version", 3),
        directive("interface", interfaces[own.address]),
        directive("virtual_router_id", spec.router_id),
        directive("priority", priority),
        directive("advert_int", INTERVAL_S),
        *([] if spec.returns else [directive("nopreempt")]),
        directive("unicast_src_ip", own.address),
        block("unicast_peer", body=[directive(address) for address in others], gap=False),
        block("virtual_ipaddress", body=[directive(spec.address)], gap=False),
        block("track_script", body=[directive(f"check-{spec.name}")], gap=False),
    ]
    return [
        block("vrrp_script", f"check-{spec.name}", body=check),
        block("vrrp_instance", spec.name, body=instance),
    ]


def _line(item: Directive) -> str:
    return " ".join((item.name, *item.args))
