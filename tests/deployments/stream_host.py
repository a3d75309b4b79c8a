"""A host with nginx or gallop whose sites have stream servers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panel.deployments.models import Deployment, DeploymentStatus
from panel.hosts.models import WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine


@dataclass
class StreamHost:
    machine: Machine
    web_server: WebServer

    @property
    def root(self) -> Path:
        return Path(self.web_server.paths["config_root"])

    def file(self, name: str) -> Path:
        return self.root / "stream.d" / f"{name}.conf"

    def site(self, name: str, upstream: str, *servers: dict[str, Any], **more: Any) -> Site:
        """A site without server blocks; an administrator lets its team use the port on loopback."""
        rows = [{"name": f"s{n}", "upstream": "app", **values} for n, values in enumerate(servers)]
        data = {
            "name": name,
            "team": "shop",
            "web_server": self.web_server.pk,
            "upstreams": [{"name": "app", "servers": [{"address": upstream}]}],
            "stream_servers": rows,
        }
        return websites.site_define(actor=self.machine.people.admin, data=data | more)

    def rolled_back(self, site: Site) -> Deployment:
        deployment = self.machine.run(self.machine.plan(site))
        assert deployment.status == DeploymentStatus.ROLLED_BACK, (deployment.status, deployment.error)
        return deployment
