"""Hostile sites of one team, on real servers, asked for files of another: `python -m tests.suites.attack.paths`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.suites.attack.paths.runner import Result


def run(sites: int, requests: int, seed: int) -> list[Result]:
    """One result for each engine; `requests` go to each site. Django must be set up, with a database."""
    from tests.suites.attack.paths import runner  # which imports models

    return runner.run(sites, requests, seed)
