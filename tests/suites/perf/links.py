"""The precision of links: each profile set up between two network namespaces and measured over itself, by the emulator
and, where the kernel has it, by `tc netem`.

Needs root. The round trip is that of 40 pings on the idle link; rates are of full packets, more of them than can pass;
the burst is what the queue and the wire hold at once, of which nothing may be dropped.
"""

from __future__ import annotations

from pathlib import Path

from agents.host import link, netem
from tests.support.bundled_programs import netem_binary

PROFILES = (
    *((5, 20, 7), (5, 20, 1000), (10, 100, 1000), (10, 20, 1000), (100, 100, 1000), (100, 20, 1000)),
    *((100, 10, 1000), (200, 10, 1000), (1000, 10, 1000), (1000, 0, 1000)),
)
ROW = "| {:>6} | {:>5} | {:>5} | {:>9} | {:>9} | {:>8} | {:>9} | {:>9} | {:>9} |"


def main(home: Path) -> None:
    why = netem.probe()
    for by in (link.BY_EMULATOR, *([] if why else [link.BY_KERNEL])):
        print(f"\n{by}:\n")
        _table(by)
    if why:
        print(f"\nNot by {link.BY_KERNEL}: {why}")


def _table(by: str) -> None:
    print(ROW.format("Mbit/s", "ms", "queue", "least RTT", "p50", "p99", "there", "back", "burst"))
    print("|-------:|------:|------:|----------:|----------:|---------:|----------:|----------:|----------:|")
    for mbps, rtt_ms, queue in PROFILES:
        profile = {"bandwidth_kbit": mbps * 1000, "rtt_us": rtt_ms * 1000, "queue_packets": queue}
        made = link.made(profile, str(netem_binary()), by)
        try:
            found = made.measure()
        finally:
            made.close()
        rtt, rate, burst = found["rtt_us"], found["rate_kbit"], found["burst"]
        ways = (f"{rate[way] / 1000:.2f}" for way in ("forward", "backward"))
        pings = (f"{rtt[share] / 1000:.2f}" for share in ("min", "p50", "p99"))
        print(ROW.format(mbps, rtt_ms, queue, *pings, *ways, f"{burst[1]}/{burst[0]}"), flush=True)
