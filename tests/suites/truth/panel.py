"""The panel of a truth run: its rows are made from the hosts of the scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.suites.truth.scene import TruthHost
from tests.support.whole_panel import WholePanel


class TruthPanel(WholePanel):
    def __init__(self, folder: Path, hosts: list[TruthHost], pems: dict[str, tuple[str, str]]) -> None:
        super().__init__(folder, "tests.suites.truth.rows", _given(hosts, pems))
        self.locations: dict[str, int] = self.made["locations"]


def _given(hosts: list[TruthHost], pems: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    found = []
    for host in hosts:
        sites = []
        for site in host.sites:
            certificate, key = pems.get(site.name, ("", ""))
            values = {"name": site.name, "kind": site.kind, "domain": site.domain, "port": site.port}
            content = {"root": str(site.root), "upstream": f"127.0.0.1:{host.app.port}"}
            sites.append(values | content | {"certificate": certificate, "key": key})
        sshd = host.sshd
        keys = {"private_key": sshd.private_key, "host_key": sshd.host_key}
        own = {"name": host.name, "port": sshd.port, "username": sshd.username, "paths": host.server.paths}
        own |= {"engine": host.server.engine}
        found.append(own | keys | {"site_roots": [str(host.server.root / "www")], "sites": sites})
    return found
