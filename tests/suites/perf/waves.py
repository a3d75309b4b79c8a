"""A rollout in waves of 1 host, 10 percent, and the rest, beside ansible-core and pyinfra doing the same in waves.

ansible-core has waves (`serial`) and stops after a host that fails (`max_fail_percentage: 0`). pyinfra has none: it is
called once for each wave and stops in the same way (`--fail-percent 0`). No wave is observed for longer (soak time 0).
While the panel rolls out, it deploys one more site again and again: from its edit until it is verified. The hosts of
the rollout run at a lower priority (PADDOCK_PERF_NICE, 0 to 19), because they share the CPUs with the panel here.

PADDOCK_PERF_WAVES sets the number of hosts, PADDOCK_PERF_PEERS=none leaves the peers out, PADDOCK_PERF_DATABASE and
PADDOCK_PERF_ROUNDS are those of `push`. With 1,000 hosts (sshd and nginx each):

    PADDOCK_PERF_WAVES=1000 PADDOCK_PERF_PEERS=none PADDOCK_PERF_ROUNDS=1 PADDOCK_PERF_DATABASE=postgresql \\
        python -m tests.suites.perf waves
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Any

from tests.suites.perf import peers
from tests.suites.perf.fleet import FleetHost, fleet, lower_priority, run_measured
from tests.suites.perf.panel import Panel, panel
from tests.suites.perf.push import PEERS, ROUNDS, Row, database
from tests.support.http_client import ask

SIZE = int(os.environ.get("PADDOCK_PERF_WAVES", "50"))
NICE = int(os.environ.get("PADDOCK_PERF_NICE", "10"))
AIM_S, AIM_BYTES, AIM_ASIDE_S = 60.0, 300e6, 0.5  # at 1,000 hosts


def main(folder: Path) -> None:
    with (
        database(folder),
        fleet(folder / "hosts", SIZE + 1) as hosts,
        panel(folder / "panel", hosts) as controller,
    ):
        lower_priority(hosts[:SIZE], NICE)
        controller.push("first", count=SIZE + 1)  # the agent is uploaded once for ever; that is not measured
        rows: dict[str, list[Row]] = {}
        found: list[dict[str, Any]] = []
        for number in range(ROUNDS):
            found.append(_panel(controller, f"r{number}"))
            rows.setdefault("panel", []).append(_row(found[-1]))
            for tool in (peers.Pyinfra, peers.Ansible):
                if tool.name in PEERS:
                    row = _peer(tool, folder, hosts[:SIZE], f"r{number}", found[-1]["waves"])
                    rows.setdefault(tool.name, []).append(row)
    _print(rows, found)


def _panel(controller: Panel, mark: str) -> dict[str, Any]:
    return controller.waves(mark, count=SIZE, aside=True)


def _row(found: dict[str, Any]) -> Row:
    return found["wall"], found["cpu"], found["machine_cpu"], found["peak_bytes"]


def _peer(
    tool: type[peers.Ansible | peers.Pyinfra], folder: Path, hosts: list[FleetHost], mark: str, waves: list[int]
) -> Row:
    binaries = peers.install()
    job = tool(folder / tool.name, hosts, mark, waves)
    row = run_measured(job.argv(binaries), job.env(binaries))
    for host in hosts:
        answer = ask(host.http_port, "/version", host="site.example").text
        assert answer == mark, f"{tool.name}: {host.name} answers {answer!r} instead of {mark!r}"
    return row


def _print(rows: dict[str, list[Row]], found: list[dict[str, Any]]) -> None:
    waves = ", ".join(map(str, found[0]["waves"]))
    print(f"\n{SIZE} hosts (niceness {NICE}) in waves of {waves}; medians of {ROUNDS} interleaved rounds")
    print(f"{'tool':<16}{'wall s':>8}{'controller CPU s':>18}{'all CPU s':>11}{'peak MB':>9}")
    for name, measured in rows.items():
        wall, cpu, machine, peak = (statistics.median(column) for column in zip(*measured, strict=True))
        print(f"{name:<16}{wall:>8.2f}{cpu:>18.2f}{machine:>11.2f}{peak / 1e6:>9.0f}")
    alone, aside = ([second for row in found for second in row[key]] for key in ("alone", "aside"))
    print("one more site, from its edit until it is verified, in seconds")
    print(f"  {'alone, median':<36}{statistics.median(alone):>8.2f}")
    print(f"  {'beside the rollout, median':<36}{statistics.median(aside):>8.2f} (aim {AIM_ASIDE_S:g})")
    print(f"  {'beside the rollout, longest':<36}{max(aside):>8.2f} of {len(aside)}")
    print(f"aims at 1,000 hosts: {AIM_S:g} s, {AIM_BYTES / 1e6:g} MB")
