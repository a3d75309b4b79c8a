"""Create an emulated network link between two network namespaces: `near` for the load generator, `far` for the servers.

Bandwidth, delay and queue are emulated by `tc netem` if the host's kernel supports it (netem.py), else by the bundled
emulator: one process with a tun interface in each namespace. When this process or the processes that keep the
namespaces end (netns.Keeper), the kernel removes the interfaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from typing import Any, Dict, List, Optional, Set

from agents.host import commands, netem, netns, paths, safe
from agents.host.errors import Refusal

PREFIX = "pdklink"
NEAR, FAR = "10.77.0.1", "10.77.0.2"
_NEAR_GATE, _FAR_GATE = "10.77.0.5", "10.77.0.6"  # addresses of the link between them
# name -> minimum, maximum; the emulator uses the values unchanged.
LIMITS = {
    "bandwidth_kbit": (8, 10_000_000),
    "rtt_us": (0, 10_000_000),
    "jitter_us": (0, 1_000_000),
    "loss_ppm": (0, 1_000_000),
    "queue_packets": (1, 1_000_000),
}
_MEASURE_S = 60.0


BY_KERNEL, BY_EMULATOR = "tc netem", "emulator"


def made(profile: Dict[str, Any], binary: str, by: str = "") -> Link:
    """Create a link with the bandwidth, delay and queue of `profile`. Without a profile ({}), the link has no emulated
    limits and only isolates the namespaces.

    `by` is BY_EMULATOR, BY_KERNEL or "": the kernel if possible, else the emulator. `binary` is the path of the
    emulator, which also measures links by the kernel.
    """
    if by not in ("", BY_KERNEL, BY_EMULATOR):
        raise Refusal("invalid", "a link is made by %r or %r, not by %r" % (BY_KERNEL, BY_EMULATOR, by))
    if not profile:
        return Direct()
    argv = _arguments(profile)
    _require_program(binary)
    if by == BY_EMULATOR:
        return Emulated(profile, binary, argv)
    why = netem.probe()
    if not why:
        return Netem(profile, binary, argv)
    if by == BY_KERNEL:
        raise Refusal("missing", "this host cannot emulate a network with tc netem: %s" % why)
    return Emulated(profile, binary, argv, why)


class Link:
    """Base class of links: two network namespaces, `near` and `far`, and their connection."""

    def __init__(self) -> None:
        self._keepers: List[netns.Keeper] = []
        try:
            self.near, self.far = self.keeper(), self.keeper()
            self.connect()
        except BaseException:
            self.close()
            raise

    def keeper(self) -> netns.Keeper:
        """Create a network namespace that exists as long as the link."""
        made = netns.Keeper()
        self._keepers.append(made)
        return made

    def connect(self) -> None:
        raise NotImplementedError

    def measure(self) -> Dict[str, Any]:
        """Return the measured properties of the link; {} for a link without a network profile."""
        return {}

    def lead(self, address: str, mtu: int) -> None:
        """Add a route from `near` over the link to `address`, which is reachable through `far`. `mtu` is the largest
        packet size in bytes.
        """
        netem.batch(self.near, "ip", ["route add %s via %s dev %s0 mtu %d" % (address, FAR, PREFIX, mtu)])

    def namespaces(self) -> Set[str]:
        return {keeper.name() for keeper in self._keepers}

    def close(self) -> None:
        for keeper in reversed(self._keepers):
            keeper.close()


class Direct(Link):
    """Link without a network profile: a pair of virtual Ethernet devices, created by ip(8)."""

    def connect(self) -> None:
        near, far = str(self.near.process.pid), str(self.far.process.pid)
        ip(["link", "add", PREFIX + "0", "netns", near, "type", "veth", "peer", "name", PREFIX + "1", "netns", far])
        for keeper, name, address in ((self.near, PREFIX + "0", NEAR), (self.far, PREFIX + "1", FAR)):
            inside = ["nsenter", "--net=" + keeper.path, "--"]
            ip(["address", "add", address + "/30", "dev", name], inside)
            ip(["link", "set", name, "up"], inside)
            ip(["link", "set", "lo", "up"], inside)


def ip(arguments: List[str], inside: Optional[List[str]] = None) -> None:
    """Run ip(8) in the host's own network namespace, or in another one if `inside` is `nsenter` with its arguments."""
    program = commands.find("ip")
    if not program:
        raise Refusal("missing", "ip(8) is not installed on this host; install the package iproute2, then run again")
    done = commands.run((inside or []) + [program] + arguments)
    if done.exit_code != 0:
        raise Refusal(
            "failed", "the emulated network link could not be created: ip %s: %s" % (" ".join(arguments), done.output)
        )


class Shaped(Link):
    """Base class of links with a network profile. The program of the emulator measures their properties, also if the
    kernel shapes the packets.
    """

    by = ""

    def __init__(self, profile: Dict[str, Any], binary: str, argv: List[str], why: str = "") -> None:
        self.profile, self.binary, self._argv, self._why = profile, binary, argv, why
        super().__init__()

    def _places(self) -> List[str]:
        return ["--near=%s,%s0,%s" % (self.near.path, PREFIX, NEAR), "--far=%s,%s1,%s" % (self.far.path, PREFIX, FAR)]

    def measure(self) -> Dict[str, Any]:
        """Return the properties of the link as measured by the emulator's command `check`: {"rtt_us", "rate_kbit", ...,
        "by", "why"}.

        "by" is the implementation, BY_KERNEL or BY_EMULATOR; "why" the reason if `tc netem` was tried and failed, else
        "".
        """
        argv = [self.binary, "check", *self._places(), *self._argv]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_MEASURE_S, check=False)
        except subprocess.TimeoutExpired:
            raise Refusal(
                "failed", "the emulated network link could not be measured within %g s" % _MEASURE_S
            ) from None
        if done.returncode != 0:
            words = done.stderr.decode("utf-8", "replace").strip()
            raise Refusal("failed", "the emulated network link could not be measured: %s" % words)
        found: Dict[str, Any] = json.loads(done.stdout)
        return dict(found, by=self.by, why=self._why)


class Netem(Shaped):
    """Link between two virtual Ethernet devices, with the bandwidth, delay and queue emulated by the kernel."""

    by = BY_KERNEL

    def connect(self) -> None:
        wire = self.keeper()
        for first, here, second, there in ((0, self.near, 2, wire), (1, self.far, 3, wire)):
            ip(netem.pair(first, here, second, there))
        netem.batch(self.near, "ip", netem.end(0, NEAR, 2, _NEAR_GATE, FAR))
        netem.batch(self.far, "ip", netem.end(1, FAR, 3, _FAR_GATE, NEAR))
        netem.batch(wire, "ip", netem.middle(2, _NEAR_GATE, 0, NEAR) + netem.middle(3, _FAR_GATE, 1, FAR))
        netem.batch(wire, "tc", netem.qdiscs(PREFIX + "3", self.profile) + netem.qdiscs(PREFIX + "2", self.profile))
        netem.forward(wire)
        self._wire = wire

    def lead(self, address: str, mtu: int) -> None:
        netem.batch(self.near, "ip", ["route add %s via %s dev %s0 mtu %d" % (address, _NEAR_GATE, PREFIX, mtu)])
        netem.batch(self._wire, "ip", ["route add %s via %s dev %s3" % (address, FAR, PREFIX)])


class Emulated(Shaped):
    """Link by the bundled emulator: exact rate, delay and drop-tail queue on every kernel."""

    by = BY_EMULATOR
    process: Optional[subprocess.Popen[bytes]] = None

    def connect(self) -> None:
        self.process = self._started(self._argv)

    def _started(self, argv: List[str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            commands.ending_with_agent([self.binary, "run", *self._places(), *argv]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline().strip() != b"ready":
            process.kill()
            words = process.stderr.read().decode("utf-8", "replace").strip()
            process.communicate()
            raise Refusal(
                "failed", "the emulated network link could not be created: %s" % (words or "the network emulator ended")
            )
        return process

    def close(self) -> None:
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.communicate(timeout=5.0)
            self.process.kill()
            self.process.wait()
        super().close()


def _require_program(binary: str) -> None:
    paths.check_shape(binary)
    if not os.access(binary, os.X_OK):
        raise Refusal("missing", "the network emulator %s does not exist or is not executable" % binary)
    safe.true_path(binary)


def _arguments(profile: Dict[str, Any]) -> List[str]:
    argv = []
    for name, (low, high) in LIMITS.items():
        value = profile.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise Refusal("invalid", "%s is %r; it must be a whole number from %d to %d" % (name, value, low, high))
        argv.append("--%s=%d" % (name.replace("_", "-"), value))
    return argv
