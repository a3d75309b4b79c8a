"""`python -m tests.suites.attack.racer [--seconds N] [--seed N] [OPERATION ...]`

Exits with 1 when the attacker gained anything.
"""

from __future__ import annotations

import argparse
import sys

from agents.protocol import OPERATIONS
from tests.suites.attack.racer import run

parser = argparse.ArgumentParser(prog="python -m tests.suites.attack.racer")
parser.add_argument("--seconds", type=float, default=60.0)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("operations", nargs="*", metavar="OPERATION")
given = parser.parse_args()
counts = run(given.seconds, seed=given.seed, operations=given.operations or OPERATIONS)
for finding in counts.findings:
    sys.stdout.write(finding + "\n")
sys.stdout.write(f"{counts}\n")
sys.exit(1 if counts.findings else 0)
