"""Emulated network links of a suite: custom links that replace the published links, and their implementations.
Also describes measured links in words, and computes the minimum duration of a load on a link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from panel.benchmarks.records import Link, LinkMeasurement
from panel.benchmarks.suites.definitions import PROTOCOLS, Case, Network
from panel.core.errors import ApplicationError

# Label, minimum and maximum. The agent's own limits are wider (agents/host/link.py); beyond these, measuring the link
# takes longer than the load, or the load never ends.
LIMITS: dict[str, tuple[str, float, float]] = {
    "bandwidth_mbps": ("Bandwidth (Mbit/s)", 1, 10_000),
    "rtt_ms": ("Round trip (ms)", 0, 2_000),
    "jitter_ms": ("Jitter (ms)", 0, 500),
    "loss_percent": ("Loss (%)", 0, 30),
    "queue_packets": ("Queue (packets)", 1, 100_000),
}

# The values are those of agents/host/link.py.
EMULATOR, KERNEL = "emulator", "tc netem"
CARRIERS = {"": "tc netem if available, otherwise the bundled emulator", EMULATOR: "the bundled emulator"}


def check_carrier(link: str) -> None:
    """Raise ApplicationError unless `link` is a key of CARRIERS."""
    if link not in CARRIERS:
        words = f"Unknown link emulation “{link}”. Use “{EMULATOR}”, or omit the field for the host's default."
        raise ApplicationError(words, field="link")


def carrier(measured: LinkMeasurement) -> str:
    """Return the implementation that emulated a measured link: EMULATOR or KERNEL.
    Old agents do not report the implementation, because they have only the bundled emulator.
    """
    return str(measured.get("by") or EMULATOR)


def carrier_words(measured: LinkMeasurement) -> str:
    """Name the implementation that emulated a measured link, for example tc netem.
    The name of the bundled emulator is followed by the reason why tc netem was not used, if known.
    """
    if carrier(measured) != EMULATOR:
        return carrier(measured)
    why = measured.get("why")
    return f"{CARRIERS[EMULATOR]} (tc netem failed on the host: {why})" if why else CARRIERS[EMULATOR]


def measured_words(network: Link) -> str:
    """Describe the link of a run (Run.fingerprint["network"]): its properties as measured before the load, and its
    implementation.
    """
    found = network["measured"]
    rtt, burst = found["rtt_us"], found["burst"]
    parts = [f"round trip {rtt['p50'] / 1000:.2f} ms (99th percentile: {rtt['p99'] / 1000:.2f})"]
    if network["asked"].get("bandwidth_kbit"):
        there, back = (found["rate_kbit"][way] / 1000 for way in ("forward", "backward"))
        parts += [
            f"{there:.2f} Mbit/s upstream and {back:.2f} downstream",
            f"{burst[1]} of {burst[0]} packets of a burst arrived",
        ]
    if "whole_rtt_us" in found:
        parts += [f"{found['whole_rtt_us']['p50'] / 1000:.2f} ms round trip to the other host"]
    return f"{', '.join(parts)}; emulated by {carrier_words(found)}"


def over(network: Network, cases: Sequence[Case]) -> tuple[Case, ...]:
    """Return copies of the cases with `network` as their link. Cases that differ only by their link become one case.

    ApplicationError if the link is impossible, or if a round would exceed its time limit.
    """
    check(network)
    found: dict[tuple[str, ...], Case] = {}
    for case in cases:
        found.setdefault((case.source, case.protocol, str(case.arguments), *case.paths), _replaced(case, network))
    for case in found.values():
        _check_time(case)
    return tuple(found.values())


def check(network: Network) -> None:
    """Validate a custom link; ApplicationError with the field of the first invalid value, such as `network/rtt_ms`."""
    for name, (label, low, high) in LIMITS.items():
        value = getattr(network, name)
        if not low <= value <= high:  # also rejects a missing value, math.nan
            given = "" if math.isnan(value) else f" You entered {value:g}."
            raise ApplicationError(f"{label}: enter a number from {low:,} to {high:,}.{given}", field=f"network/{name}")
    if network.jitter_ms > network.rtt_ms / 2:
        words = (
            f"Jitter (ms): enter at most half of the round trip, {network.rtt_ms / 2:g}, because jitter "
            "applies in each direction."
        )
        raise ApplicationError(words, field="network/jitter_ms")


def least_s(case: Case, requests: int) -> float:
    """Return the minimum number of seconds that the link of a case needs for the requests; 0 without a link.
    The bandwidth of the link limits files; its delay limits requests that follow each other.
    """
    if case.network is None:
        return 0.0
    size = sum(size for name, size in case.sizes if f"/{name}" in case.paths)
    by_bandwidth = requests * size * 8 / (case.network.bandwidth_mbps * 1e6)
    at_once = int(case.arguments.get("concurrency") or 1) * int(case.arguments.get("streams") or 1)
    by_delay = requests / at_once * case.network.rtt_ms / 1000
    return max(by_bandwidth, by_delay)


def _replaced(case: Case, network: Network) -> Case:
    """Return the case with `network` as its link, and without the published figures, which were measured on other
    links.
    """
    name = case.group or case.title
    words = f"{name}: {network.words}" + (f", {PROTOCOLS[case.protocol]}" if case.network else "")
    return replace(case, network=network, title=words, as_published=False)


def _check_time(case: Case) -> None:
    requests = case.arguments.get("requests")
    least = least_s(case, int(requests)) if requests and not case.arguments.get("duration_s") else 0.0
    if least > case.timeout_s:
        words = (
            f"A round of “{case.title}” takes at least {least:,.0f} s, but its time limit is "
            f"{case.timeout_s} s. Choose a faster link, or other cases."
        )
        raise ApplicationError(words, field="network")
