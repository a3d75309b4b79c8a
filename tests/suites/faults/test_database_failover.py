"""The primary PostgreSQL ends or vanishes and its standby is promoted: no deployment is lost or done twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from tests.suites.renewals.scene import RenewalHost, Scene, scene
from tests.support.database_pair import DatabasePair
from tests.support.waiting import eventually
from tests.support.whole_panel import WholePanel

ROWS = "tests.suites.renewals.rows"
SITES = 3
PROMOTED_AFTER_S = 5.0


@dataclass
class Admins:
    """One administrator per site, who deploys one change after the other. `accepted` is what the panel promised."""

    panel: WholePanel
    accepted: list[tuple[str, str, int]] = field(default_factory=list)  # deployment, site, limit of bodies in MB
    ended: threading.Event = field(default_factory=threading.Event)

    def work(self, site: str) -> None:
        for megabytes in count(100):
            if self.ended.wait(0.3):
                return
            self.deploy(site, megabytes)

    def deploy(self, site: str, megabytes: int) -> None:
        block = self.panel.made["blocks"][site]
        if self.panel.call("PATCH", f"blocks/{block}/", {"client_max_body_mb": megabytes})[0] != 200:
            return
        status, body = self.panel.call("POST", "deployments/", {"sites": [site], "confirm": True})
        if status == 202:
            self.accepted.append((body["deployments"][0]["uuid"], site, megabytes))

    def states(self) -> list[str]:
        """The status of each accepted deployment, "" of those that have not ended."""
        rows = [self.panel.call("GET", f"deployments/{uuid}/")[1] for uuid, _site, _megabytes in self.accepted]
        return [str(row["status"]) if row and row.get("is_finished") else "" for row in rows]

    def __enter__(self) -> Admins:
        sites = self.panel.made["blocks"]
        self.threads = [threading.Thread(target=self.work, args=[site]) for site in sites]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()


@pytest.fixture
def world(server_root: Path) -> Iterator[tuple[WholePanel, DatabasePair, Scene]]:
    pair = DatabasePair(server_root / "databases")
    try:
        pair.start()
        with scene(server_root / "hosts", hosts=1, sites=SITES) as found:
            panel = WholePanel(server_root / "panel", ROWS, found.given(), pair.url)
            panel.start()
            try:
                yield panel, pair, found
            finally:
                panel.stop()
    finally:
        pair.stop()


@pytest.mark.parametrize("fault", ["kill_primary", "cut_primary"])
def test_no_deployment_is_lost_or_done_twice_in_a_failover(
    world: tuple[WholePanel, DatabasePair, Scene], fault: str
) -> None:
    panel, pair, found = world
    admins = Admins(panel)
    with admins:
        assert eventually(lambda: len(admins.accepted) >= 6, timeout_s=60), panel.log.read_text()
        getattr(pair, fault)()
        time.sleep(PROMOTED_AFTER_S)
        pair.promote()
        before = len(admins.accepted)
        assert eventually(lambda: len(admins.accepted) >= before + 6, timeout_s=25), panel.log.read_text()
    assert eventually(lambda: all(admins.states()), timeout_s=60), (admins.states(), panel.log.read_text())
    assert set(admins.states()) == {"succeeded"}
    listed = panel.call("GET", "deployments/?limit=100")[1]["results"]
    assert {uuid for uuid, _site, _megabytes in admins.accepted} <= {row["uuid"] for row in listed}
    assert found.hosts[0].reloads() == [row["status"] for row in listed].count("succeeded")
    for site in panel.made["blocks"]:
        newest = max(megabytes for _uuid, of, megabytes in admins.accepted if of == site)
        assert f"client_max_body_size {newest}m;" in files_of(found.hosts[0], site)


def files_of(host: RenewalHost, site: str) -> str:
    """The site's files on the host."""
    return "".join(path.read_text() for path in host.nginx.root.rglob(f"*{site}*.conf"))
