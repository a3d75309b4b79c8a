"""A link shaped by the kernel: `tc netem`, where the host's kernel has it.

    near --pdklink0==pdklink2-- wire --pdklink3==pdklink1-- far

The wire is a namespace of its own that routes between two virtual Ethernets, and shapes what leaves it on either side,
so that both directions are alike: first the bottleneck, which is what sends at the link's rate and how many packets may
wait for it, then the way, which is the delay. One netem alone would count packets under way among those that wait.
What leaves near or far is cut to packets of the link before the wire sees it (gso_max_segs): a queue counts packets.
"""

from __future__ import annotations

import subprocess

from agents.host import commands, lean, netns
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

_ETHERNET = 14  # bytes of a packet's length that are none of the IP packet's
_NO_LIMIT = 1_000_000
_FORWARDING = "/proc/sys/net/ipv4/ip_forward"
_TIMEOUT_S = 20.0
# A profile that asks for everything there is: what the kernel takes for the probe it takes for a link.
_PROBED = {"bandwidth_kbit": 1000, "rtt_us": 1000, "jitter_us": 100, "loss_ppm": 1000, "queue_packets": 7}


def probe() -> str:
    """Why this host cannot shape a link by `tc netem`, in the kernel's own words; "" where it can. Tried in a network
    namespace of its own, which is gone afterwards."""
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
    """tc(8) commands that shape what leaves by `interface` like one direction of `profile` (agents/host/link.py)."""
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
        # Only a netem with a rate keeps packets in their order; this one takes none of them any time.
        second += " %dus rate 100gbit" % jitter_us
    return [first, second]


def hardware(number: int) -> str:
    return "02:70:64:6b:00:%02x" % number


def end(number: int, address: str, router: int, gateway: str, other: str) -> List[str]:
    """ip(8) commands for interface `number` where packets come from: its `address`, and `other` by way of `gateway`,
    which is the wire's interface `router`. Its neighbour is told, not asked for: questions would be shaped as well."""
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
    """The same for the wire's interface `number`, whose neighbour `other` has the interface `beyond`."""
    name = "pdklink%d" % number
    return [
        "link set dev %s gso_max_segs 1" % name,
        "address add %s peer %s/32 dev %s" % (address, other, name),
        "link set dev %s up" % name,
        "neighbour replace %s lladdr %s dev %s nud permanent" % (other, hardware(beyond), name),
    ]


def pair(first: int, here: netns.Keeper, second: int, there: netns.Keeper) -> List[str]:
    """A virtual Ethernet with an end in each namespace: arguments of ip(8)."""
    argv = ["link", "add"]
    for number, keeper, words in ((first, here, ["type", "veth", "peer"]), (second, there, [])):
        argv += ["name", "pdklink%d" % number, "address", hardware(number), "netns", "%d" % keeper.process.pid, *words]
    return argv


def forward(keeper: netns.Keeper) -> None:
    """Lets the namespace route. Its settings are those that a thread inside sees in /proc/sys."""
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
        raise Refusal("failed", "a namespace may not be made to route: %s" % failed[0])


def inside(work: Callable[[], None]) -> None:
    """`work` in a thread of its own, for it to enter a namespace; until it is done."""
    lean.start(work).wait()


def batch(keeper: netns.Keeper, program: str, lines: List[str]) -> None:
    """Several commands of ip(8) or tc(8) in a namespace, all of them or Refusal with what was said of the first that
    failed."""
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
        raise Refusal("failed", "the link could not be made: %s" % error) from None
    if done.returncode != 0:
        words = " ".join(done.stdout.decode("utf-8", "replace").split())
        raise Refusal("failed", "the link could not be made: %s: %s" % (program, words))
