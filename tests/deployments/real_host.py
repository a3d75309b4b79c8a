"""A host with real servers on it, and the panel's side of it: sites, deployments, what answers over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from panel.core.claims import Attempt
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.planning import services
from panel.hosts.models import Engine, Host, HostStatus, Layout, WebServer
from panel.websites import services as websites
from panel.websites.models import Site
from tests.support.cast import Cast, cast
from tests.support.http_client import Answer, ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.sshd import SshServer
from tests.support.waiting import eventually


class Machine:
    """`root` is where everything of the host lies; `people.host` is its row."""

    def __init__(self, root: Path, sshd: SshServer | None = None) -> None:
        self.root = root
        self.sshd = sshd
        self.people: Cast = cast(str(root))
        self.host: Host = self.people.host
        self.host.site_roots = [str(root / "www")]
        self.host.status = HostStatus.READY
        if sshd is not None:
            self.host.connection = "ssh"
            self.host.address, self.host.port = "127.0.0.1", sshd.port
            self.host.username, self.host.private_key = sshd.username, sshd.private_key
            self.host.host_key = sshd.host_key
        self.host.save()
        WebServer.objects.all().delete()
        self.port = free_port()

    def web_server(self, server: NginxInstance | Any, engine: Engine, layout: Layout = Layout.SITES) -> WebServer:
        return WebServer.objects.create(host=self.host, engine=engine, paths=server.paths, layout=layout)

    def files(self, name: str, text: str | None = None) -> Path:
        folder = self.root / "www" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(text or f"this is {name}")
        return folder

    def site(self, name: str, web_server: WebServer, **values: Any) -> Site:
        given: dict[str, Any] = {
            "actor": self.people.owner,
            "team": self.people.team,
            "name": name,
            "domains": [f"{name}.example"],
            "web_server": web_server,
            "port": self.port,
            "root": str(self.files(name)),
        }
        return websites.site_create(**(given | values))

    def get(self, name: str, path: str = "/") -> Answer:
        return ask(self.port, path, host=f"{name}.example")

    def answers(self, name: str, text: str, path: str = "/") -> bool:
        return eventually(lambda: self.get(name, path).text.strip() == text)

    def plan(self, *sites: Site) -> Deployment:
        (deployment,) = services.deployment_plan(actor=self.people.owner, sites=sites)
        return deployment

    def run(self, deployment: Deployment, *, accept_drift: bool = False) -> Deployment:
        """Confirm a plan and be the worker that carries it out."""
        services.deployment_confirm(actor=self.people.owner, deployment=deployment, accept_drift=accept_drift)
        assert execution.deployment_execute(deployment.uuid) == Attempt.DONE
        deployment.refresh_from_db()
        return deployment

    def deploy(self, *sites: Site) -> Deployment:
        deployment = self.run(self.plan(*sites))
        assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
        return deployment
