"""An administrator who edits and deploys sites all the time through the API, and compares results with the files."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.suites.truth.panel import TruthPanel
from tests.suites.truth.scene import TruthSite

FINAL = {"succeeded", "failed", "rolled_back", "cancelled"}
STUCK_AFTER_S = 900.0


class Admin:
    """`results` counts the deployments by status; `false` lists those whose status contradicts the host's file."""

    def __init__(self, panel: TruthPanel, sites: list[TruthSite], seed: int, say: Callable[[str], None]) -> None:
        self._panel, self._sites, self._chance, self._say = panel, sites, random.Random(seed), say
        self.results: Counter[str] = Counter()
        self.false: list[str] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._number = 0

    def __enter__(self) -> Admin:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._chance.uniform(5.0, 15.0)):
            self.deploy(self._chance.choice(self._sites))

    def deploy(self, site: TruthSite) -> None:
        """Change what the site's /version responds with, deploy it, wait for the end, and look at the file."""
        self._number += 1
        mark = f"mark-{self._number}"
        status, _body = self._panel.call(
            "PATCH", f"locations/{self._panel.locations[site.name]}/", {"return_value": mark}
        )
        if status != 200:
            self.results[f"edit refused with {status}"] += 1
            return
        status, body = self._panel.call("POST", "deployments/", {"sites": [site.name], "confirm": True})
        if status != 202:
            self.results[f"refused with {status}"] += 1
            return
        self._follow(site, mark, body["deployments"][0]["uuid"])

    def _follow(self, site: TruthSite, mark: str, uuid: str) -> None:
        until = time.monotonic() + STUCK_AFTER_S
        while time.monotonic() < until:
            status, row = self._panel.call("GET", f"deployments/{uuid}/")
            if status == 200 and row["status"] in FINAL:
                self._judge(site, mark, row)
                return
            time.sleep(1.0)
        self.false.append(f"{site.name} {uuid}: not at an end after {STUCK_AFTER_S:.0f} s")

    def _judge(self, site: TruthSite, mark: str, row: dict[str, Any]) -> None:
        self.results[row["status"]] += 1
        expected = mark if row["status"] == "succeeded" else site.mark
        found = live_mark(site)
        if found != expected:
            self.false.append(f"{site.name}: {row['status']}, so {expected} was expected, but the file has {found}")
            self._say(f"FALSE {self.false[-1]}: {row.get('error')}")
        site.mark = found


def live_mark(site: TruthSite) -> str:
    """Mark in the site's file on its host; "" without one."""
    try:
        found = re.search(r"mark-\d+", site.config.read_text())
    except OSError:
        return ""
    return found[0] if found else ""
