"""Seconds from the request to the end of a one-site deployment while another team deploys to many hosts.

The hosts of the large deployment run on one CPU, the panel and the host of the one site on another: in reality hosts do
not take the panel's CPU.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

from tests.suites.renewals import scene as scenes
from tests.support.whole_panel import WholePanel

SIZE = int(os.environ.get("PADDOCK_PERF_BESIDE_HOSTS", "150"))
AIM_S = 2.0  # more than without the large deployment
TIMES = 6
PLAN_TIMEOUT_S = 150.0


class _Team:
    """Deploys changes of one site after each other."""

    def __init__(self, panel: WholePanel, site: str) -> None:
        self.panel, self.site, self.megabytes = panel, site, 100

    def deploy(self) -> float:
        self.megabytes += 1
        _change(self.panel, self.site, self.megabytes)
        began = time.monotonic()
        uuid = self.panel.deploy(self.site)
        assert uuid, self.panel.log.read_text()
        assert _ended(self.panel, uuid)["status"] == "succeeded"
        return time.monotonic() - began


def _change(panel: WholePanel, site: str, megabytes: int) -> None:
    values = {"client_max_body_mb": megabytes}
    assert panel.call("PATCH", f"blocks/{panel.made['blocks'][site]}/", values)[0] == 200


def _ended(panel: WholePanel, uuid: str) -> dict[str, Any]:
    while True:
        _status, row = panel.call("GET", f"deployments/{uuid}/")
        if row and row["is_finished"]:
            found: dict[str, Any] = row
            return found
        time.sleep(0.05)


def main(folder: Path) -> None:
    panel_cpu, hosts_cpu = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {hosts_cpu})
    with scenes.scene(folder / "hosts", hosts=SIZE, sites=1) as found:
        os.sched_setaffinity(0, {panel_cpu})
        own = found.hosts[-1].sshd
        own.stop()
        own.start()  # now on the panel's CPU
        panel = WholePanel(folder / "panel", "tests.suites.renewals.rows", found.given(), page_timeout_s=PLAN_TIMEOUT_S)
        panel.start()
        try:
            _measure(panel)
        finally:
            panel.stop()


def _measure(panel: WholePanel) -> None:
    *others, own = panel.made["blocks"]
    team = _Team(panel, own)
    for _first in range(TIMES):
        team.deploy()
    alone = [team.deploy() for _time in range(TIMES)]
    status, planned = panel.call("POST", "deployments/", {"sites": others})
    assert status == 201, planned
    began = time.monotonic()
    uuids = [row["uuid"] for row in planned["deployments"]]
    assert panel.call("POST", f"deployments/{uuids[0]}/confirm/", {})[0] == 202
    beside = [team.deploy() for _time in range(TIMES)]
    assert {_ended(panel, uuid)["status"] for uuid in uuids} == {"succeeded"}
    print(f"one site beside a deployment to {len(others)} hosts, in seconds from the request to the end")
    print(f"  {'alone, median':<46}{statistics.median(alone):>8.1f}")
    print(f"  {'beside, each':<46}    {', '.join(f'{seconds:.1f}' for seconds in beside)}")
    print(f"  {'longest delay':<46}{max(beside) - statistics.median(alone):>8.1f} (aim {AIM_S:.0f})")
    print(f"  {'large deployment':<46}{time.monotonic() - began:>8.1f}")
