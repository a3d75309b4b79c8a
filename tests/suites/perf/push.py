"""Pushing one changed site to each of many sshd + nginx hosts, beside ansible-core and pyinfra doing the same job.

The panel goes the whole way: freeze, render, ask each host what lies there, store the plan, confirm, carry out with
steps and outcome in the database. Rounds of all tools are interleaved. Cold: the panel runs and has no connection.
"The job alone" is the limit: no SSH, no controller, four threads on the machine itself.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.suites.perf import peers
from tests.suites.perf.account import cpu_seconds
from tests.suites.perf.fleet import FleetHost, fleet, run_measured, site_text
from tests.suites.perf.panel import Panel, job_alone, panel
from tests.support.http_client import ask
from tests.support.postgres import Postgres

SIZES = tuple(map(int, os.environ.get("PADDOCK_PERF_HOSTS", "10 50").split()))
ROUNDS = int(os.environ.get("PADDOCK_PERF_ROUNDS", "3"))
PEERS = os.environ.get("PADDOCK_PERF_PEERS", "pyinfra ansible-core").split()
AIMED_AT = 50  # hosts
PEER_NAMES = (peers.Pyinfra.name, peers.Ansible.name)
# wall s, controller CPU s, CPU s of the whole machine, peak bytes of the controller
Row = tuple[float, float, float, float]
AIMS = {"panel, cold": (1.5, 3.0), "panel, warm": (0.5, 0.8)}  # wall s and CPU s at 50 hosts
AIM_BYTES = 100e6


def _peer(tool: type[peers.Ansible | peers.Pyinfra], folder: Path, hosts: list[FleetHost], mark: str) -> Row:
    binaries = peers.install()
    job = tool(folder / tool.name, hosts, mark)
    row = run_measured(job.argv(binaries), job.env(binaries))
    for host in hosts:
        answer = ask(host.http_port, "/version", host="site.example").text
        assert answer == mark, f"{tool.name}: {host.name} answers {answer!r} instead of {mark!r}"
    return row


def _alone(hosts: list[FleetHost], mark: str) -> Row:
    texts = [site_text(host, mark) for host in hosts]
    machine, cpu, began = cpu_seconds(), _own_cpu(), time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(job_alone, hosts, [mark] * len(hosts), texts))
    return time.monotonic() - began, _own_cpu() - cpu, cpu_seconds() - machine, 0.0


def _own_cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _panel(controller: Panel, mark: str, count: int, parts: list[dict[str, float]], *, cold: bool) -> Row:
    measured = controller.push(mark, count=count, cold=cold)
    parts.append(measured)
    return measured["wall"], measured["cpu"], measured["machine_cpu"], measured["peak_bytes"]


@contextmanager
def database(folder: Path) -> Iterator[None]:
    """SQLite, or a private PostgreSQL with PADDOCK_PERF_DATABASE=postgresql."""
    if os.environ.get("PADDOCK_PERF_DATABASE") != "postgresql":
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    before = os.environ.get("PADDOCK_DATABASE_URL")
    with Postgres(folder / "postgres") as postgres:
        os.environ["PADDOCK_DATABASE_URL"] = postgres.url
        try:
            yield
        finally:
            os.environ.pop("PADDOCK_DATABASE_URL")
            if before is not None:
                os.environ["PADDOCK_DATABASE_URL"] = before


def main(folder: Path) -> None:
    with (
        database(folder),
        fleet(folder / "hosts", max(SIZES)) as hosts,
        panel(folder / "panel", hosts) as controller,
    ):
        for size in SIZES:
            _compare(folder, controller, hosts[:size])


def _compare(folder: Path, controller: Panel, hosts: list[FleetHost]) -> None:
    parts: dict[str, list[dict[str, float]]] = {"panel, cold": [], "panel, warm": []}
    count = len(hosts)
    jobs: dict[str, Callable[[str], Row]] = {
        "panel, cold": lambda mark: _panel(controller, mark, count, parts["panel, cold"], cold=True),
        "panel, warm": lambda mark: _panel(controller, mark, count, parts["panel, warm"], cold=False),
        "pyinfra": lambda mark: _peer(peers.Pyinfra, folder, hosts, mark),
        "ansible-core": lambda mark: _peer(peers.Ansible, folder, hosts, mark),
        "the job alone": lambda mark: _alone(hosts, mark),
    }
    jobs = {name: job for name, job in jobs.items() if name in PEERS or name not in PEER_NAMES}
    rows: dict[str, list[Row]] = {name: [] for name in jobs}
    controller.push(f"first{count}", count=count)  # the agent is uploaded once for ever; that is not measured
    for number in range(ROUNDS):
        for step, (name, job) in enumerate(jobs.items()):
            rows[name].append(job(f"n{count}r{number}s{step}"))
    medians = {name: [statistics.median(column) for column in zip(*found, strict=True)] for name, found in rows.items()}
    _print_table(count, medians)
    _print_parts(parts)
    if count == AIMED_AT:
        _print_aims(medians)


def _print_table(count: int, medians: dict[str, list[float]]) -> None:
    print(f"\n{count} hosts, medians of {ROUNDS} interleaved rounds")
    print(
        f"{'tool':<16}{'wall s':>8}{'controller CPU s':>18}{'all CPU s':>11}{'peak MB':>9}   panel warm, cold: x faster"
    )
    warm, cold = medians["panel, warm"][0], medians["panel, cold"][0]
    for name, (wall, cpu, machine, peak) in medians.items():
        memory = f"{peak / 1e6:.0f}" if peak else "-"
        ratios = "" if name.startswith("panel") else f"   {wall / warm:.1f}, {wall / cold:.1f}"
        print(f"{name:<16}{wall:>8.2f}{cpu:>18.2f}{machine:>11.2f}{memory:>9}{ratios}")


def _print_parts(parts: dict[str, list[dict[str, float]]]) -> None:
    for name, found in parts.items():
        median = {key: statistics.median(row[key] for row in found) for key in ("plan", "confirm", "run", "edit")}
        words = ", ".join(f"{key} {median[key]:.2f} s" for key in ("plan", "confirm", "run"))
        print(f"{name}: {words} (the edit before it, not counted: {median['edit']:.2f} s)")


def _print_aims(medians: dict[str, list[float]]) -> None:
    for name, (wall, cpu) in AIMS.items():
        found = medians[name]
        print(f"{name}: wall {found[0]:.2f} s, aim {wall:g} ({_verdict(found[0], wall)}); ", end="")
        print(f"CPU {found[2]:.2f} s, aim {cpu:g} ({_verdict(found[2], cpu)})")
    peak = max(medians[name][3] for name in AIMS)
    print(f"worker's memory: {peak / 1e6:.0f} MB, aim {AIM_BYTES / 1e6:g} ({_verdict(peak, AIM_BYTES)})")


def _verdict(found: float, aim: float) -> str:
    return "reached" if found <= aim else f"missed by a factor of {found / aim:.1f}"
