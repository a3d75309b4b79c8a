"""Connect two hosts by an emulated network link: load generator and link on one, the servers of a test bed on the
other.

    load host:     near ==link== gate --pdklink9--+
                                                  | VXLAN (RFC 7348), over the hosts' own network
    server host:   servers --pdklink9-------------+

The gate has the place of `far` in a link on one host (link.py). The tunnel at the gate goes only to the servers'
namespace, so processes in `near` reach nothing else. The panel gives the same secret word to the test beds on both
hosts. Before any load, the server host must send this word, so that a host without the test bed cannot be a target. No
address, route or rule of either host is changed, and the servers do not listen in the host's network.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from agents.host import link, netem, netns
from agents.host.errors import Refusal

GATE, SERVERS = "10.77.1.1", "10.77.1.2"
_TUNNEL = link.PREFIX + "9"
# VXLAN takes 50 of an Ethernet frame's 1500 bytes, and other tunnels between hosts some more.
MTU = 1400
_WORD = re.compile(r"[0-9a-f]{32}\Z")
_WORD_PORT = 9
_ANSWER_S = 15.0
_PINGS = 20


class Peer:
    """The other host of a run on two hosts, with the checked values of a request.

    `role` is "load" or "servers", the role of this host. `address` is the address of the other host. `word` is the
    secret word, and `vni` and `port` belong to the tunnel; the test beds on both hosts have the same three values.
    """

    def __init__(self, args: Dict[str, Any]) -> None:
        self.role, self.word = str(args.get("role")), str(args.get("word"))
        if self.role not in ("load", "servers") or not _WORD.match(self.word):
            raise Refusal("invalid", "a test bed's peer is the load or the servers, and has a word of 32 hex digits")
        try:
            self.address = str(ipaddress.ip_address(str(args.get("address"))))
        except ValueError:
            raise Refusal("invalid", "the other host's address is %r, which is none" % args.get("address")) from None
        self.vni = _number(args, "vni", 1, (1 << 24) - 1)
        self.port = _number(args, "port", 1024, 65535)

    def tunnel(self, keeper: netns.Keeper) -> List[str]:
        """Return the arguments of ip(8) that create the tunnel's device in a namespace. The packets of the tunnel use
        the host's own network.
        """
        place = ["name", _TUNNEL, "netns", "%d" % keeper.process.pid, "mtu", "%d" % MTU]
        kind = ["type", "vxlan", "id", "%d" % self.vni, "remote", self.address, "dstport", "%d" % self.port]
        return ["link", "add", *place, *kind]


def _number(args: Dict[str, Any], name: str, low: int, high: int) -> int:
    value = args.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Refusal("invalid", "%s is %r; it must be a whole number from %d to %d" % (name, value, low, high))
    return value


class Servers(link.Link):
    """Servers' side of the tunnel: one namespace, in which a thread sends the secret word to the load
    host on request.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._telling: Optional[socket.socket] = None
        super().__init__()

    def connect(self) -> None:
        link.ip(self._peer.tunnel(self.far))
        commands = ["link set dev lo up", "address add %s/30 dev %s" % (SERVERS, _TUNNEL)]
        commands += ["link set dev %s up" % _TUNNEL, "route add %s via %s dev %s" % (link.NEAR, GATE, _TUNNEL)]
        netem.batch(self.far, "ip", commands)
        self._telling = _within(self.far, lambda: socket.create_server((SERVERS, _WORD_PORT)))
        threading.Thread(target=_tell, args=(self._telling, self._peer.word), daemon=True).start()

    def close(self) -> None:
        if self._telling is not None:
            with contextlib.suppress(OSError):
                self._telling.shutdown(socket.SHUT_RDWR)  # wakes the waiting thread
            self._telling.close()
        super().close()


def _tell(listening: socket.socket, word: str) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return  # closed: the test bed has ended
        with connection:
            connection.sendall(word.encode())


def join(made: link.Link, peer: Peer) -> Dict[str, Any]:
    """Connect the link's `far` side to the servers on the other host. Raise Refusal unless they send the word of
    `peer`.

    Returns {"whole_rtt_us": {"min", "p50"}}: round trips from `near` to the servers in microseconds, including the
    hosts' own network.
    """
    link.ip(peer.tunnel(made.far))
    commands = ["address add %s/30 dev %s" % (GATE, _TUNNEL), "link set dev %s up" % _TUNNEL]
    netem.batch(made.far, "ip", commands)
    netem.forward(made.far)
    made.lead(SERVERS, MTU)
    heard = _within(made.near, lambda: _heard(peer))
    if heard != peer.word:
        raise Refusal("refused", "the host that responds at %s does not run the test bed for this load" % peer.address)
    times = sorted(_within(made.near, lambda: [_round_trip_us() for _ in range(_PINGS)]))
    return {"whole_rtt_us": {"min": times[0], "p50": times[len(times) // 2]}}


def check_listeners(listeners: List[str]) -> None:
    """Raise Refusal unless all listeners have the address of the servers in the tunnel, so that no load
    goes elsewhere.
    """
    for listener in listeners:
        if listener.rpartition(":")[0] != SERVERS:
            raise Refusal("refused", "%s is not the address of the web servers of the other host's test bed" % listener)


def _heard(peer: Peer) -> str:
    deadline = time.monotonic() + _ANSWER_S
    while True:
        try:
            with socket.create_connection((SERVERS, _WORD_PORT), timeout=2.0) as connection:
                return connection.makefile("rb").read(64).decode("ascii", "replace")
        except OSError as error:
            if time.monotonic() > deadline:
                raise Refusal(
                    "failed",
                    (
                        "the host of the web servers does not respond at %s, UDP port %d (%s). Allow packets between "
                        "both hosts at this port in both directions; check the firewalls"
                    )
                    % (peer.address, peer.port, error),
                ) from None
            time.sleep(0.1)


def _round_trip_us() -> int:
    """Return the time for one TCP connect to the servers, in microseconds: one round trip."""
    began = time.monotonic()
    with socket.create_connection((SERVERS, _WORD_PORT), timeout=10.0):
        return int((time.monotonic() - began) * 1e6)


def _within(keeper: netns.Keeper, work: Callable[[], Any]) -> Any:
    """Call `work` in a thread inside the namespace; return its result or raise its exception."""
    found: List[Any] = []
    failed: List[BaseException] = []

    def run() -> None:
        try:
            keeper.enter()
            found.append(work())
        except (OSError, Refusal) as error:
            failed.append(error)

    netem.inside(run)
    if failed:
        raise failed[0]
    return found[0]
