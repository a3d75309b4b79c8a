"""The link emulator's own precision: each profile set up between two network namespaces and measured over itself.

Needs root. The round trip is that of 40 pings on the idle link; rates are of full packets, more of them than can pass;
the burst is what the queue and the wire hold at once, of which nothing may be dropped.
"""

from __future__ import annotations

from pathlib import Path

from agents.host import link
from tests.support.netem import netem_binary

PROFILES = (
    *((5, 20, 7), (5, 20, 1000), (10, 100, 1000), (10, 20, 1000), (100, 100, 1000), (100, 20, 1000)),
    *((100, 10, 1000), (200, 10, 1000), (1000, 10, 1000), (1000, 0, 1000)),
)
ROW = "| {:>6} | {:>5} | {:>5} | {:>9} | {:>8} | {:>9} | {:>9} | {:>9} |"


def main(home: Path) -> None:
    print(ROW.format("Mbit/s", "ms", "queue", "RTT, p50", "p99", "there", "back", "burst"))
    print("|-------:|------:|------:|----------:|---------:|----------:|----------:|----------:|")
    for mbps, rtt_ms, queue in PROFILES:
        made = link.made(
            {"bandwidth_kbit": mbps * 1000, "rtt_us": rtt_ms * 1000, "queue_packets": queue}, str(netem_binary())
        )
        try:
            found = made.measure()
        finally:
            made.close()
        rtt, rate, burst = found["rtt_us"], found["rate_kbit"], found["burst"]
        ways = (f"{rate[way] / 1000:.2f}" for way in ("forward", "backward"))
        pings = (f"{rtt[share] / 1000:.2f}" for share in ("p50", "p99"))
        print(ROW.format(mbps, rtt_ms, queue, *pings, *ways, f"{burst[1]}/{burst[0]}"), flush=True)
