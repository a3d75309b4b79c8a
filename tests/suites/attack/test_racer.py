"""Short form of the racer: each operation of the agent is attacked briefly at its system calls."""

from __future__ import annotations

from agents.protocol import OPERATIONS
from tests.suites.attack.racer import run
from tests.suites.attack.racer.cases import CASES

SECONDS, AT_ONCE = 10.0, 2


def test_racer_attacks_every_protocol_operation() -> None:
    assert sorted(CASES) == sorted(OPERATIONS)


def test_unprivileged_account_gains_nothing_from_any_operation() -> None:
    counts = run(SECONDS, at_once=AT_ONCE)
    assert counts.findings == [], f"{counts}\n" + "\n".join(counts.findings)
    assert counts.operations == len(OPERATIONS)
    assert counts.tries > len(OPERATIONS)
    assert counts.swaps > 0, counts
