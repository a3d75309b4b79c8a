"""Every operation of the agent beside an attacker who swaps names at every system call.

The agent runs as root under ptrace. Before each call that names a path, an unprivileged account may exchange any part
of that path which the kernel lets it exchange: for links, hard links, FIFOs, folders and files of its own. Afterwards
the files of root's must be unchanged and unread, nothing of the attacker's may have run as root, and the agent must
have answered. `python -m tests.suites.attack.racer --seconds 60` runs it; `run` is what tests call.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from agents.protocol import OPERATIONS

ROOT = Path(__file__).resolve().parents[4]
LANE_TIMEOUT_S = 600.0


@dataclass
class Counts:
    """`stops`: system calls at which the attacker had a turn. `findings`: what he got, with how."""

    operations: int = 0
    tries: int = 0
    swaps: int = 0
    stops: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        self.operations += other.operations
        self.tries += other.tries
        self.swaps += other.swaps
        self.stops += other.stops
        self.findings += other.findings

    def __str__(self) -> str:
        return (
            f"racer: {self.operations} operations, {self.tries} tries, {self.stops} system calls stopped at, "
            f"{self.swaps} swaps, {len(self.findings)} findings"
        )


def run(seconds: float = 60.0, *, seed: int = 1, operations: Sequence[str] = OPERATIONS, at_once: int = 1) -> Counts:
    """Tries of each of these operations, `seconds` in all, `at_once` operations beside each other. Needs root."""
    counts = Counts()
    each = seconds * at_once / len(operations)
    with ThreadPoolExecutor(at_once) as pool:
        for found in pool.map(lambda operation: lane(operation, each, seed), operations):
            counts.add(found)
    return counts


def lane(operation: str, seconds: float, seed: int) -> Counts:
    """Tries of one operation, in a process of its own."""
    argv = [sys.executable, "-m", "tests.suites.attack.racer.operation_worker", operation, str(seconds), str(seed)]
    done = subprocess.run(
        argv, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds + LANE_TIMEOUT_S, check=False
    )
    counts = Counts(operations=1)
    for line in done.stdout.splitlines():
        found = json.loads(line)
        place = f"{found['operation']} (case {found['case']}), {found['plan']}"
        findings = [f"{place}: {words}" for words in found["findings"]]
        counts.add(Counts(tries=1, swaps=found["swaps"], stops=found["stops"], findings=findings))
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace")[-2000:]
        counts.findings.append(f"{operation}: the racer failed with status {done.returncode}: {words}")
    return counts
