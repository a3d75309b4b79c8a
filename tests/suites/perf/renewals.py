"""Renew 300 certificates of 10 hosts in one night, with two workers; print time, memory, orders and reloads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.suites.renewals.__main__ import main as renewals

HOSTS = os.environ.get("PADDOCK_PERF_RENEWAL_HOSTS", "10")


def main(home: Path) -> None:
    """Print the figures. RuntimeError if a renewal failed, was ordered twice, or left a site without a certificate."""
    sys.stdout.flush()
    if renewals(["--hosts", HOSTS]):
        raise RuntimeError("the renewals did not end well; see above")
