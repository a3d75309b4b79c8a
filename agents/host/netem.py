"""Shape an emulated network link with the kernel's `tc netem`, if the host's kernel supports it.

    near --pdklink0==pdklink2-- wire --pdklink3==pdklink1-- far

near, wire and far are network namespaces. The wire routes between two virtual Ethernet devices. It shapes outgoing
packets on both sides, so both directions are equal: first the bottleneck, with the link's rate and queue, then the
delay. A single netem would count delayed packets as queued. A queue counts packets, so the kernel must not pass several
on as one large packet: gso_max_segs is 1 where packets leave near and far.
"""

from __future__ import annotations

import subprocess
import threading
from typing import Any, Callable, Dict, List

from agents.host import commands, netns
from agents.host.errors import Refusal

_ETHERNET = 14  # length of the Ethernet header, which is not part of the IP packet
_NO_LIMIT = 1_000_000
_FORWARDING = "/proc/sys/net/ipv4/ip_forward"
_TIMEOUT_S = 20.0
# A profile with all settings, so the probe tests everything that a link may need.
_PROBED = {"bandwidth_kbit": 1000, "rtt_us": 1000, "jitter_us": 100, "loss_ppm": 1000, "queue_packets": 7}


def probe() -> str:
    """Return the reason why this host does not support `tc netem`, in the words of the kernel or the agent; "" if it
    does.

    The test uses a temporary network namespace.
    """
    try:
        keeper = netns.Keeper()
    except Refusal as refusal:
        return refusal.message
    try:
        batch(keeper, "tc", qdiscs("lo", _PROBED))
        forward(keeper)
        return ""
    except Refusal as refusal:
        return refusal.message
    finally:
        keeper.close()


def qdiscs(interface: str, profile: Dict[str, Any]) -> List[str]:
    """Return tc(8) commands that shape the packets leaving through `interface` with the rate, queue, loss and half the
    delay of `profile`.
    """
    kbit, rtt_us = profile.get("bandwidth_kbit") or 0, profile.get("rtt_us") or 0
    jitter_us, loss_ppm = profile.get("jitter_us") or 0, profile.get("loss_ppm") or 0
    # One packet is being sent while the others wait.
    waiting = profile.get("queue_packets", 1000) + 1 if kbit else _NO_LIMIT
    first = "qdisc add dev %s root handle 1: netem limit %d" % (interface, waiting)
    if loss_ppm:
        first += " loss random %d.%04d%%" % divmod(loss_ppm, 10_000)
    if kbit:
        first += " rate %dkbit -%d" % (kbit, _ETHERNET)
    if not (rtt_us or jitter_us):
        return [first]
    second = "qdisc add dev %s parent 1:1 handle 2: netem limit %d" % (interface, _NO_LIMIT)
    second += " delay %.1fus" % (rtt_us / 2)
    if jitter_us:
        # Only netem with a rate keeps packets in order; this rate adds no delay.
        second += " %dus rate 100gbit" % jitter_us
    return [first, second]


def hardware(number: int) -> str:
    return "02:70:64:6b:00:%02x" % number


def end(number: int, address: str, router: int, gateway: str, other: str) -> List[str]:
    """Return ip(8) commands for interface `number` at one end of the link: its `address`, and the route to `other`, the
    address at the other end.

    `gateway` is the address of the wire's interface `router`. The neighbor is static, because ARP requests would be
    shaped too.
    """
    name = "pdklink%d" % number
    return [
        "link set dev lo up",
        "link set dev %s gso_max_segs 1" % name,
        "address add %s peer %s/32 dev %s" % (address, gateway, name),
        "link set dev %s up" % name,
        "neighbour replace %s lladdr %s dev %s nud permanent" % (gateway, hardware(router), name),
        "route add %s via %s dev %s src %s" % (other, gateway, name, address),
    ]


def middle(number: int, address: str, beyond: int, other: str) -> List[str]:
    """Return ip(8) commands for interface `number` of the wire, the namespace in the middle of the link. `address` is
    its address, `other` the address at the end of this side, and `beyond` the number of the interface there.
    """
    name = "pdklink%d" % number
    return [
        "link set dev %s gso_max_segs 1" % name,
        "address add %s peer %s/32 dev %s" % (address, other, name),
        "link set dev %s up" % name,
        "neighbour replace %s lladdr %s dev %s nud permanent" % (other, hardware(beyond), name),
    ]


def pair(first: int, here: netns.Keeper, second: int, there: netns.Keeper) -> List[str]:
    """Return arguments of ip(8) that create a pair of virtual Ethernet devices: interface `first` in the namespace
    `here`, `second` in `there`.
    """
    argv = ["link", "add"]
    for number, keeper, words in ((first, here, ["type", "veth", "peer"]), (second, there, [])):
        argv += ["name", "pdklink%d" % number, "address", hardware(number), "netns", "%d" % keeper.process.pid, *words]
    return argv


def forward(keeper: netns.Keeper) -> None:
    """Enable IPv4 routing in a namespace. A thread enters the namespace to write the setting, because the content of
    /proc/sys depends on the namespace.
    """
    failed: List[OSError] = []

    def work() -> None:
        try:
            keeper.enter()
            with open(_FORWARDING, "w", encoding="ascii") as file:
                file.write("1\n")
        except OSError as error:
            failed.append(error)

    inside(work)
    if failed:
        raise Refusal("failed", "a network namespace cannot be set to route: %s" % failed[0])


def inside(work: Callable[[], None]) -> None:
    """Run `work`, which may move its thread to a namespace, in a separate thread; wait for its end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()


def batch(keeper: netns.Keeper, program: str, lines: List[str]) -> None:
    """Run several commands of ip(8) or tc(8) in a namespace; raise Refusal with the output if one fails."""
    path = commands.find(program)
    if not path:
        raise Refusal(
            "missing", "%s(8) is not installed on this host (package iproute2, or iproute and iproute-tc)" % program
        )
    argv = ["nsenter", "--net=" + keeper.path, "--", path, "-batch", "-"]
    try:
        done = subprocess.run(
            argv,
            input="".join(line + "\n" for line in lines).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=commands.environment(),
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refusal("failed", "the emulated network link could not be created: %s" % error) from None
    if done.returncode != 0:
        words = " ".join(done.stdout.decode("utf-8", "replace").split())
        raise Refusal("failed", "the emulated network link could not be created: %s: %s" % (program, words))
