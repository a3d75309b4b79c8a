"""`python -m tests.conformance [--sites N] [--requests N] [--chance N]`: the fixed cases, then generated sites.

Every engine is compared with nginx; the last line says which engines, how many requests, how many differences. Ends
with 1 when a difference is not a documented one. OpenLiteSpeed does not take part yet.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance import cases, table
from tests.conformance.compare import Outcome, departures
from tests.conformance.generator import FILES, generate
from tests.conformance.servers import NGINX, Engine, engines
from tests.conformance.world import world

BATCH = 25  # sites in one server at a time


@contextmanager
def folder() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="pd-"))
    root.chmod(0o755)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def generated(others: list[Engine], sites: int, requests: int, chance: int) -> Outcome:
    outcome = Outcome()
    with folder() as root, world(root, FILES) as here:
        found = generate(here, sites=sites, requests=requests, chance=chance)
        for first in range(0, len(found), BATCH):
            outcome.add(departures(others, found[first : first + BATCH], root, here.port))
            print(f"  {min(first + BATCH, sites)} of {sites} sites, {outcome.compared} answers compared", flush=True)
    return outcome


def fixed(every: list[Engine]) -> tuple[int, list[str]]:
    """How many answers were compared with what is expected, and what was wrong."""
    count, wrong = 0, []
    for engine in every:
        with folder() as root, world(root, cases.FILES) as here:
            asked, found = cases.run(engine, root, here)
        count += asked
        wrong += found
        print(f"  {engine.name}: {len(cases.CASES)} fixed cases", flush=True)
    return count, wrong


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance")
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--requests", type=int, default=100, help="of each site")
    parser.add_argument("--chance", type=int, default=1, help="another number makes other sites")
    options = parser.parse_args(arguments)
    began, every = time.monotonic(), engines()
    others = [engine for engine in every if engine != NGINX]
    print("fixed cases")
    count, wrong = fixed(every)
    print("generated sites, compared with nginx")
    outcome = generated(others, options.sites, options.requests, options.chance)
    wrong += [str(item) for item in outcome.unexplained]
    print("\ndocumented differences met")
    for name, times in sorted(outcome.known.items()):
        print(f"  {times:6} {name}")
    print()
    print(table.text())
    for item in wrong[:200]:
        print(f"DIFFERENCE {item}")
    print(
        f"\n{', '.join(engine.name for engine in every)}: {count + outcome.compared} requests compared in "
        f"{time.monotonic() - began:.0f} s, {len(wrong)} differences"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
