"""Tries of one operation, in a process with a file system of its own; one JSON object a line on standard output.

python -m tests.suites.attack.racer.operation_worker OPERATION SECONDS SEED
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import sys
import time
from typing import Any

from panel.remote import bundle
from tests.suites.attack.racer.attacker import KINDS
from tests.suites.attack.racer.cases import CASES, Case
from tests.suites.attack.racer.ptrace_steps import libc
from tests.suites.attack.racer.world import PLACE, Agent, Hung, Plan, World

MOST_EACH, MOST_TOLD = 1000, 5
_NEWNS, _REC, _PRIVATE = 0x20000, 0x4000, 0x40000


def own_place() -> None:
    """A mount namespace in which PLACE is new, so that nothing of the machine is swapped or lost."""

    def check(result: int) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), "the racer needs root and mount namespaces")

    check(libc.unshare(_NEWNS))
    check(libc.mount(b"none", b"/", None, _REC | _PRIVATE, None))
    check(libc.mount(b"racer", str(PLACE).encode(), b"tmpfs", 0, b"mode=1777"))


def attempt(case: Case, plan: Plan, seed: int) -> dict[str, Any]:
    """One try. {"events", "swaps", "stops", "findings": what the attacker got, "outcome": of the request}."""
    world = World()
    agent_file = bundle.written_to(PLACE / "agent")
    findings: list[str] = []
    said, outcome, stops = b"", "", 0
    try:
        case.prepare(world, agent_file)
        world.plan, world.events = plan, 0
        agent = Agent(world, agent_file)
        try:
            outcome = case.talk(world, agent)
        except Hung:
            findings.append("the agent hung")
        except EOFError:
            findings.append("the agent died")
        finally:
            if not agent.close():
                findings.append("the agent did not end")
        said = agent.said
        stops = agent.stepper.stops if agent.stepper else 0
    finally:
        case.end(world)
    findings += world.canaries.broken(said)
    counts = {"events": world.events, "swaps": world.swaps, "stops": stops, "firsts": sorted(world.firsts.values())}
    return {**counts, "findings": findings[:MOST_TOLD], "outcome": outcome}


def plans(events: int, firsts: list[int], chance: random.Random) -> list[Plan]:
    """Every swap at every call that differs from those before it, in a random order; those that swap at each call come
    first, where there are not too many."""
    whole = [Plan(kind, 0, outermost, "each") for kind in KINDS for outermost in (False, True)]
    whole = whole if events <= MOST_EACH else []
    single = [
        Plan(kind, first, outermost, how)
        for first, kind, outermost, how in itertools.product(firsts, KINDS, (False, True), ("stay", "once"))
    ]
    chance.shuffle(single)
    return whole + single


def main(operation: str, seconds: float, seed: int) -> None:
    bundle.bundle()  # of sources that may lie below /tmp
    own_place()
    for number, case in enumerate(CASES[operation]):
        calm = attempt(case, Plan(), seed)
        if calm["findings"] or calm["outcome"] != case.outcome:
            calm["findings"].append(f"without an attack it came to {calm['outcome']!r}, not {case.outcome!r}")
        todo = plans(calm["events"], calm["firsts"], random.Random(seed + number))
        tell(operation, number, Plan(), calm)
        # The time is for attacks alone, and at least one is made: on a busy machine the first try may use up all of it.
        until = time.monotonic() + seconds / len(CASES[operation])
        for plan in todo:
            tell(operation, number, plan, attempt(case, plan, seed))
            if time.monotonic() > until:
                break


def tell(operation: str, number: int, plan: Plan, found: dict[str, Any]) -> None:
    del found["firsts"]
    line = {"operation": operation, "case": number, "plan": str(plan), **found}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os.umask(0o022)
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
