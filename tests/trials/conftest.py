from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from panel.hosts.models import Engine, EngineInstall
from panel.remote import pool
from panel.websites.models import Site
from tests.deployments.real import Machine
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance


class Stand:
    """`shop` stands on nginx; Apache and gallop are installed on the same machine."""

    def __init__(self, machine: Machine, installs: dict[str, EngineInstall]) -> None:
        self.machine = machine
        self.installs = installs
        self.site: Site = machine.site("shop", installs["nginx"])
        self.block = self.site.blocks.get()
        self.log = machine.root / "log" / "shop.log"
        self.block.access_log = str(self.log)
        self.block.save()
        machine.deploy(self.site)

    @property
    def others(self) -> list[EngineInstall]:
        return [self.installs["apache"], self.installs["native"]]


@pytest.fixture
def stand(transactional_db: None, server_root: Path, settings: Settings) -> Iterator[Stand]:
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    with NginxInstance(server_root) as nginx:
        machine = Machine(server_root)
        apache, gallop = ApacheInstance(server_root / "apache"), GallopInstance(server_root / "gallop")
        servers = {Engine.NGINX: nginx, Engine.APACHE: apache, Engine.NATIVE: gallop}
        yield Stand(machine, {engine.value: machine.install(server, engine) for engine, server in servers.items()})
        apache.stop()
        gallop.stop()
    pool.close()


def logged(stand: Stand, targets: list[str], *, queries: bool = False) -> None:
    """Visitors' requests in the site's own access log, answered with success."""
    with stand.log.open("a") as sink:
        for number, target in enumerate(targets):
            query = f"?secret={number}" if queries else ""
            sink.write(f'192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] "GET {target}{query} HTTP/1.1" 200 5 "-" "x"\n')
