"""Administrators who go on deploying during a fault, and what must be true afterwards."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import count

from tests.suites.renewals.scene import RenewalHost
from tests.support.waiting import eventually
from tests.support.whole_panel import WholePanel


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
        if uuid := self.panel.deploy(site):
            self.accepted.append((uuid, site, megabytes))

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


def assert_done_once(panel: WholePanel, admins: Admins, host: RenewalHost, within_s: float = 60) -> None:
    """Every accepted deployment succeeded, with one reload of the host, and its files have each site's last change."""
    assert eventually(lambda: all(admins.states()), timeout_s=within_s), (admins.states(), panel.log.read_text())
    assert set(admins.states()) == {"succeeded"}
    listed = panel.call("GET", "deployments/?limit=1000")[1]["results"]
    assert {uuid for uuid, _site, _megabytes in admins.accepted} <= {row["uuid"] for row in listed}
    succeeded = [row for row in listed if row["status"] == "succeeded"]
    assert host.reloads() == len({row["joined_as"] or row["uuid"] for row in succeeded})
    for site in panel.made["blocks"]:
        newest = max(megabytes for _uuid, of, megabytes in admins.accepted if of == site)
        assert f"client_max_body_size {newest}m;" in files_of(host, site)


def files_of(host: RenewalHost, site: str) -> str:
    """The site's files on the host."""
    return "".join(path.read_text() for path in host.nginx.root.rglob(f"*{site}*.conf"))
