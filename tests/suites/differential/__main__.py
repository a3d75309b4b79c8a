"""Compare gallop with nginx on generated configurations.

`python -m tests.suites.differential [--of KIND] [--configurations N] [--requests N] [--chance N]`

Each configuration holds several server blocks and is asked that many requests. Prints every difference that no rule
explains and ends with 1 when there is one. DIFFERENTIAL_NGINX names another nginx than the system's. Kinds: sites
(everything), levels (what a level takes over from the one around it), variables (every variable), upstreams (odd
answers of applications), gateways (the same of uwsgi and SCGI).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.suites.differential import directive_levels, upstreams, variables
from tests.suites.differential.compare import Outcome, compared
from tests.suites.differential.configs import Place, configuration
from tests.suites.differential.logs import with_logs
from tests.suites.differential.odd_application import odd
from tests.suites.differential.requests import Sent, requests
from tests.suites.differential.servers import (
    TIMEOUT_S,
    Backend,
    Refused,
    application,
    ask,
    both,
    nginx_version,
    wait_until_answered,
    write_files,
)

SETTLED_S = 0.05  # until the last request is over for the server too: an upstream may still say that it is
SITES = 8  # server blocks in a configuration


@dataclass(frozen=True)
class Kind:
    """What makes a configuration, and so many requests for it, before which application."""

    configuration: Callable[[Random, Place], str]
    requests: Callable[[Random, int], Iterator[Sent]]
    application: Callable[[Path], AbstractContextManager[Backend]] = application
    timeout_s: float = TIMEOUT_S  # for an answer


KINDS = {
    "sites": Kind(
        lambda chance, place: configuration(chance, place, SITES), lambda chance, count: requests(chance, SITES, count)
    ),
    "levels": Kind(directive_levels.levels, directive_levels.asked),
    "variables": Kind(variables.shown, variables.asked),
    # nginx leaves clients waiting where a broken answer is shorter than it said.
    "upstreams": Kind(upstreams.answering, upstreams.asked, odd, timeout_s=5),
    "gateways": Kind(upstreams.gateways, upstreams.asked_of_gateways, odd, timeout_s=5),
}


def one(root: Path, backend: Backend, chance: int, count: int, kind: str) -> Outcome:
    """One configuration, `count` requests; `chance` alone says what they are."""
    random = Random(chance)
    asked = KINDS[kind]
    with both(root, backend.port, lambda place: asked.configuration(random, place)) as where:
        pairs = list(ask(where, list(asked.requests(random, count)), asked.timeout_s))
        time.sleep(SETTLED_S)
        for each in where:
            wait_until_answered(each)  # what came before is logged by then
    # Both have ended: every line is written.
    found = compared(backend.with_asked(with_logs(root, pairs)))
    found.unexplained = [f"configuration {chance}: {what}" for what in found.unexplained]
    return found


def run(
    first: int, configurations: int, count: int, *, kind: str = "sites", tell: bool = False, keep: bool = False
) -> Outcome:
    """`configurations` of them, from the number `first` on. `keep`: the last one's folder stays and is named."""
    root = Path(tempfile.mkdtemp(prefix="pd-"))
    root.chmod(0o755)
    whole = Outcome()
    try:
        write_files(root / "www")
        with KINDS[kind].application(root) as backend:
            for number in range(first, first + configurations):
                found = _tried(root, backend, number, count, kind)
                whole.add(found)
                if tell:
                    _tell(number, whole, found)
    finally:
        if keep:
            print(f"kept: {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)
    return whole


def _tried(root: Path, backend: Backend, number: int, count: int, kind: str) -> Outcome:
    try:
        return one(root, backend, number, count, kind)
    except Refused as why:
        return Outcome(unexplained=[f"configuration {number} is refused: {why}"])


def _tell(number: int, whole: Outcome, found: Outcome) -> None:
    for what in found.unexplained:
        print(what, flush=True)
    if number % 10 == 0 or found.unexplained:
        print(f"  {number}: {whole.compared} requests, {len(whole.unexplained)} differences", flush=True)


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.differential")
    parser.add_argument("--of", choices=sorted(KINDS), default="sites", dest="kind")
    parser.add_argument("--configurations", type=int, default=100)
    parser.add_argument("--requests", type=int, default=1000, help="to each configuration")
    parser.add_argument("--chance", type=int, default=1, help="the first configuration's number")
    parser.add_argument("--keep", action="store_true", help="leave the last configuration and its logs where they are")
    options = parser.parse_args(given)
    began = time.monotonic()
    count = (options.chance, options.configurations, options.requests)
    whole = run(*count, kind=options.kind, tell=True, keep=options.keep)
    for name, times in whole.known.most_common():
        print(f"    {times:6} {name}")
    print(f"    statuses: {dict(sorted(whole.statuses.items()))}")
    print(
        f"nginx {nginx_version()}: {whole.compared} requests compared in {time.monotonic() - began:.0f} s, "
        f"{whole.known.total()} documented differences, {len(whole.unexplained)} others"
    )
    return 1 if whole.unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
