#!/usr/bin/env python3
"""Search for bugs with new random inputs, for a limited time; `make nightly` runs this.

    nightly.py                    two hours with a new seed
    nightly.py --minutes 20 --seed 4711

Hypothesis draws new values, and the generators of the conformance, quoting, and differential suites create new sites
and requests from the seed. Tests of both the database and real servers run on SQLite, as `make test` runs them in
cluster mode only. The first line names the seed, and the last lines name the command that repeats each failure. A bug
that is found becomes a named case of the fixed tests (CONTRIBUTING.md).
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("sites", "levels", "variables", "upstreams")  # of sites in the differential suite
CONFIGURATIONS = 50  # number of configurations in one call of the differential suite
NOT_FINISHED = 2  # exit code of a suite whose time has passed


@dataclass(frozen=True)
class Step:
    """One command of the run. If it `repeats`, it runs again with the next seeds until its time has passed."""

    name: str
    argv: list[str]
    minutes: float
    repeats: bool = False


def steps(seed: int, minutes: float) -> Iterator[Step]:
    """Yield the commands with their time, a fifth each: Hypothesis, embedded mode, and the three suites."""
    part = minutes / 5
    yield Step("hypothesis", [*pytest(), f"--hypothesis-seed={seed}"], part)
    yield Step("embedded mode", embedded(), part)
    limits = ["--chance", str(seed), "--minutes", f"{part:g}"]
    yield Step("conformance", [sys.executable, "-m", "tests.suites.conformance", *limits], part)
    yield Step("quoting", [sys.executable, "-m", "tests.suites.conformance.quoting", *limits], part)
    for kind in KINDS:
        argv = [sys.executable, "-m", "tests.suites.differential", "--of", kind]
        argv += ["--configurations", str(CONFIGURATIONS), "--chance"]
        yield Step(f"differential: {kind}", argv, part / len(KINDS), repeats=True)


def pytest() -> list[str]:
    """Return the command that runs all tests that use Hypothesis."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    files = [str(path.relative_to(ROOT)) for path in paths if "from hypothesis import" in path.read_text("utf-8")]
    return [sys.executable, "-m", "pytest", "-q", "-x", *files]


def embedded() -> list[str]:
    """Return the command that runs on SQLite those tests that `make test` runs in cluster mode only."""
    parallel = ["-n", str((os.cpu_count() or 2) + 2), "--dist", "loadscope"]
    chosen = ["--part=embedded-servers", "--ignore=tests/suites/browser"]
    return [sys.executable, "-m", "pytest", "-q", *parallel, *chosen]


def run(step: Step, seed: int) -> str:
    """Run one step; return the command that failed, "" if none did."""
    until = time.monotonic() + step.minutes * 60
    while True:
        argv = [*step.argv, str(seed)] if step.repeats else step.argv
        if failed(argv, until - time.monotonic()):
            return " ".join(argv)
        seed += CONFIGURATIONS
        if not step.repeats or time.monotonic() > until:
            return ""


def failed(argv: list[str], seconds: float) -> bool:
    """Return whether the command found a bug; False if its time has passed before."""
    with tempfile.TemporaryDirectory(prefix="paddock-nightly-") as home:
        env = {**os.environ, "HYPOTHESIS_PROFILE": "explore", "PADDOCK_HOME": home}
        Path(home).chmod(0o755)  # servers under test drop their privileges
        process = subprocess.Popen(argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL)
        try:
            return process.wait(max(60.0, seconds + 60)) not in (0, NOT_FINISHED)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()
            return False


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="nightly.py")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    options = parser.parse_args(given)
    print(f"==> seed {options.seed}, {options.minutes:g} minutes", flush=True)
    failures = []
    for step in steps(options.seed, options.minutes):
        print(f"==> {step.name}", flush=True)
        failure = run(step, options.seed)
        if failure:
            failures.append(f"{step.name}: HYPOTHESIS_PROFILE=explore {failure}")
    for failure in failures:
        print(f"==> FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
