"""`python -m tests.suites.conformance [--sites N] [--requests N] [--chance N]`: the fixed cases, then generated sites.

Every engine is compared with nginx, and “Which location?” with every engine; the last line says which engines,
how many requests, how many differences. Ends with 1 when a difference is not a documented one.

`--keep FILE --minutes M` stops after M minutes and goes on at the next call (ends with 2 while something is left);
`--write` puts the results into docs/results/conformance.md. `python -m tests.suites.conformance.quoting` is the run of
hostile values. OpenLiteSpeed takes part where PADDOCK_OPENLITESPEED names an installation
(tests/support/openlitespeed.py).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.suites.conformance import fixed_cases, location_check, results, table
from tests.suites.conformance.compare import Outcome, departures
from tests.suites.conformance.generator import FILES, Generated, generate
from tests.suites.conformance.progress import Progress, digest
from tests.suites.conformance.servers import NGINX, Engine, engines, version
from tests.suites.conformance.world import World, world

BATCH = 25  # sites in one server at a time


@contextmanager
def folder() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="pd-"))
    root.chmod(0o755)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def fixed(engine: Engine) -> Outcome:
    """The fixed cases on one engine, compared with what is expected."""
    with folder() as root, world(root, fixed_cases.FILES) as here:
        asked, wrong = fixed_cases.run(engine, root, here)
    return Outcome(asked, unexplained=[*wrong])


Part = tuple[str, Callable[[], Outcome]]


def parts(every: list[Engine], options: argparse.Namespace, here: World, root: Path) -> Iterator[Part]:
    """What there is to do, in order: the name of each part and how it is done."""
    others = [engine for engine in every if engine != NGINX]
    for engine in every:
        yield f"fixed: {engine.name}", lambda engine=engine: fixed(engine)  # type: ignore[misc]
    found = generate(here, sites=options.sites, requests=options.requests, chance=options.chance)
    for first in range(0, options.sites, BATCH):
        batch = found[first : first + BATCH]
        name = f"{first + 1} to {first + len(batch)}"
        yield f"generated: {name}", lambda batch=batch: departures(others, batch, root, here.port)  # type: ignore[misc]
        asked = [Generated(item.spec, item.requests[: options.explained]) for item in batch]
        yield (
            f"explained: {name}",
            lambda asked=asked: location_check.departures(others, asked, root, here.port, here.www),  # type: ignore[misc]
        )


def run(every: list[Engine], options: argparse.Namespace, progress: Progress) -> bool:
    """Whether everything was done within the time."""
    until = time.monotonic() + options.minutes * 60 if options.minutes else None
    with folder() as root, world(root, FILES) as here:
        for name, work in parts(every, options, here, root):
            if progress.done(name):
                continue
            if until is not None and time.monotonic() > until:
                return False
            progress.add(name, work())
            print(f"  {name}: {progress.parts[name].compared} answers", flush=True)
    return True


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.conformance")
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--requests", type=int, default=100, help="of each site")
    parser.add_argument("--explained", type=int, default=20, help="requests of each site that are explained as well")
    parser.add_argument("--chance", type=int, default=1, help="another number makes other sites")
    parser.add_argument("--keep", type=Path, help="a file for what was compared; a later call goes on there")
    parser.add_argument("--minutes", type=float, default=0, help="stop after so many")
    parser.add_argument("--write", action="store_true", help="docs/results/conformance.md")
    return parser.parse_args(given)


def main(given: list[str]) -> int:
    options = arguments(given)
    every = engines()
    versions = {engine.name: version(engine) for engine in every}
    numbers = (options.sites, options.requests, options.explained, options.chance)
    progress = Progress(options.keep, digest(str(numbers), str(versions)))
    whole = run(every, options, progress)
    found = progress.whole()
    print("\ndocumented differences met")
    for name, times in sorted(found.known.items()):
        print(f"  {times:6} {name}")
    print(f"\n{table.text()}")
    for item in found.unexplained[:200]:
        print(f"DIFFERENCE {item}")
    line = results.line(versions, progress)
    if not whole:
        print(f"\nnot everything yet; the same command goes on. So far {line}")
        return 2
    if options.write:
        results.write(versions, numbers, progress)
    print(f"\n{line}")
    return 1 if found.unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
