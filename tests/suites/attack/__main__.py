"""`make attack`: every attack in its long form. The last line counts doors, requests and findings.

    python -m tests.suites.attack [--only NAME ...] [--seed S] [--sites N] [--requests M] [--seconds N]

Parts: authorization, hostile, floods, paths, racer. A part that fails or ends by itself counts as a finding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.suites.attack.figures import FILE

ROOT = Path(__file__).resolve().parents[3]
TESTS = {
    "authorization": "tests/suites/attack/test_matrix.py",
    "hostile": "tests/suites/attack/test_hostile.py",
    "floods": "tests/suites/attack/test_floods.py",
}


def commands(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    for name, path in TESTS.items():
        yield name, [sys.executable, "-m", "pytest", path, "-q", "-n", "0", "--show-capture=no"]
    seed = ["--seed", str(given.seed)]
    many = ["--sites", str(given.sites), "--requests", str(given.requests)]
    for name, more in (("paths", [*many, *seed]), ("racer", ["--seconds", str(given.seconds)])):
        if importlib.util.find_spec(f"tests.suites.attack.{name}") is not None:
            yield name, [sys.executable, "-m", f"tests.suites.attack.{name}", *more]


def tried(name: str, argv: list[str], figures: Path) -> dict[str, int]:
    """Runs one part and counts; its output goes on to ours."""
    print(f"==> {name}", flush=True)
    known = len(figures.read_text().splitlines())
    env = {**os.environ, "ATTACK": "long", FILE: str(figures)}
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        last = line.strip() or last
    code = process.wait()
    rows = [json.loads(line) for line in figures.read_text().splitlines()[known:]]
    count = {key: sum(row[key] for row in rows) for key in ("doors", "requests")}
    findings = sum(len(row["findings"]) for row in rows)
    said = re.search(r"(\d[\d,]*) (?:requests|tries)", last)
    if not rows and said:
        count["requests"] = int(said[1].replace(",", ""))
    return {**count, "findings": findings or int(code != 0)}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.suites.attack", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=300)
    given = parser.parse_args()
    total = {"doors": 0, "requests": 0, "findings": 0}
    with tempfile.TemporaryDirectory(prefix="attack-") as folder:
        figures = Path(folder) / "figures"
        figures.touch()
        for name, argv in commands(given):
            if not given.only or name in given.only:
                counted = tried(name, argv, figures)
                total = {key: value + counted[key] for key, value in total.items()}
    print(f"attack: {total['doors']} doors, {total['requests']} requests, {total['findings']} findings")
    return 1 if total["findings"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
