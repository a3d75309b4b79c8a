"""Several hosts with a real nginx each, whose sites are deployed and then changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from panel.accounts.models import User
from panel.deployments.execution import services as execution
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.planning import services as planning
from panel.hosts.models import Connection, Engine, Host, HostStatus, Layout, WebServer
from panel.remote import pool
from panel.rollouts.advancing import rollout_advance
from panel.rollouts.models import Rollout
from panel.rollouts.services import Rules, rollout_start
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

HOSTS = 5


class Fleet:
    """Hosts that share this machine. Site `site-N` of host `node-N` answers "old N", and after the change "new N"."""

    def __init__(self, machine: Machine, servers: Sequence[NginxInstance]) -> None:
        self.machine = machine
        self.owner: User = machine.people.owner
        self.servers = servers
        self.ports = [free_port() for _ in servers]
        self.sites = [self._site(number) for number in range(len(servers))]
        first = planning.deployment_plan(actor=self.owner, sites=self.sites)
        planning.deployment_confirm(actor=self.owner, deployment=first[0])
        self.work()
        assert self.texts() == [f"old {number}" for number in range(len(servers))]

    def _site(self, number: int) -> Site:
        host = Host.objects.create(
            name=f"node-{number}",
            connection=Connection.LOCAL,
            status=HostStatus.READY,
            site_roots=[str(self.machine.root / "www")],
        )
        server = self.servers[number]
        web_server = WebServer.objects.create(host=host, engine=Engine.NGINX, paths=server.paths, layout=Layout.SITES)
        folder = self.machine.files(f"old-{number}", f"old {number}")
        return self.machine.site(f"site-{number}", web_server, port=self.ports[number], root=str(folder))

    def log(self, number: int) -> Path:
        """The site's own access log."""
        return Path(self.servers[number].paths["log_dir"], f"site-{number}.log")

    def change(self, numbers: Sequence[int] | None = None, **values: Any) -> None:
        """Change the drafts of these sites, of all by default."""
        for number in range(len(self.sites)) if numbers is None else numbers:
            folder = self.machine.files(f"new-{number}", f"new {number}")
            block = self.sites[number].blocks.get()
            websites.block_update(actor=self.owner, block=block, **({"root": str(folder)} | values))

    def plan(self) -> Deployment:
        """A plan for all sites, made by an administrator, who may use every port of the host."""
        return planning.deployment_plan(
            actor=self.machine.people.admin, sites=[Site.objects.get(pk=site.pk) for site in self.sites]
        )[0]

    def start(self, **rules: Any) -> Rollout:
        """Start a rollout with waves of one, one (20 percent), and three hosts."""
        given = Rules(**({"first": 1, "percent": 20, "soak_s": 0} | rules))
        return rollout_start(actor=self.owner, deployment=self.plan(), rules=given)

    def work(self) -> None:
        """Be the worker of deployments."""
        queued = Deployment.objects.filter(status=DeploymentStatus.QUEUED)
        execution.deployments_execute(list(queued.values_list("uuid", flat=True)))

    def go_on(self, rollout: Rollout, until: dt.timedelta = dt.timedelta(seconds=90)) -> Rollout:
        """Be both workers until the rollout needs a person, or has ended."""

        def stands() -> bool:
            rollout_advance(rollout.uuid)
            self.work()
            rollout.refresh_from_db()
            return rollout.status not in ("queued", "running")

        assert eventually(stands, timeout_s=until.total_seconds()), rollout.progress
        return rollout

    def text(self, number: int) -> str:
        return ask(self.ports[number], "/", host=f"site-{number}.example").text.strip()

    def texts(self) -> list[str]:
        return [self.text(number) for number in range(len(self.sites))]

    def waves(self, rollout: Rollout) -> list[str]:
        return list(rollout.waves.values_list("status", flat=True))

    def config(self, number: int) -> dict[str, bytes]:
        """Every configuration file of a host."""
        root = Path(self.servers[number].paths["config_root"])
        return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.suffix == ".conf"}


@pytest.fixture
def agent_home(settings: Settings, server_root: Path) -> Iterator[Path]:
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    yield settings.LOCAL_HOST_ROOT
    pool.close()


@pytest.fixture
def fleet(transactional_db: None, agent_home: Path, server_root: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        servers = [stack.enter_context(NginxInstance(server_root / f"n{number}")) for number in range(HOSTS)]
        yield Fleet(Machine(server_root), servers)
