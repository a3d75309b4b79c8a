from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from panel.certificates import scheduling, services
from panel.certificates.models import AcmeAccount, Order
from panel.certificates.ordering import order_execute
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import Deployment
from panel.hosts.models import Engine, Layout
from panel.remote import pool
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.openlitespeed import OpenLiteSpeedInstance
from tests.support.openlitespeed import source as openlitespeed_source
from tests.support.pebble import Pebble
from tests.support.ports import free_port
from tests.support.sshd import SshServer

logger = logging.getLogger(__name__)

# OpenLiteSpeed takes part where PADDOCK_OPENLITESPEED names an installation.
ENGINES = [Engine.NGINX, Engine.APACHE, Engine.NATIVE, *([Engine.OPENLITESPEED] if openlitespeed_source() else [])]
SERVERS = {
    Engine.OPENLITESPEED: (OpenLiteSpeedInstance, Layout.VHOSTS),
    Engine.NGINX: (NginxInstance, Layout.SITES),
    Engine.APACHE: (ApacheInstance, Layout.SITES),
    Engine.NATIVE: (GallopInstance, Layout.CONF_D),
}


class World:
    """A host with one web server, and a certificate authority that reaches it."""

    def __init__(self, machine: Machine, server: Any, engine: Engine, layout: Layout) -> None:
        self.machine = machine
        self.people = machine.people
        self.server = server
        self.web_server = machine.web_server(server, engine, layout)
        if engine == Engine.APACHE:
            self.web_server.version, self.web_server.own_ports = "2.4.62", []
            self.web_server.save()
        self.https_port = free_port()
        self.pebble: Pebble | None = None

    def authority(self, http_port: int = 0, **options: Any) -> AcmeAccount:
        self.pebble = Pebble(self.machine.root, http_port or self.machine.port, **options).start()
        return self.account()

    def account(self, name: str = "pebble", **values: Any) -> AcmeAccount:
        assert self.pebble is not None
        values = {"issuer": "other", "directory_url": self.pebble.directory, "ca_pem": self.pebble.ca_pem, **values}
        return services.account_create(actor=self.people.admin, team=self.people.team, name=name, **values)

    def site(self, name: str = "shop", **values: Any) -> Site:
        return self.machine.site(name, self.web_server, **values)

    def enable(self, site: Site, account: AcmeAccount, **values: Any) -> Order:
        return services.automatic_enable(
            actor=self.people.admin, site=site, account=account, https_port=self.https_port, **values
        )

    def run(self, order: Order) -> Order:
        order_execute(order.uuid)
        order.refresh_from_db()
        return order

    def turn(self, times: int = 12) -> None:
        """What the sweep does, until no order is under way."""
        for _ in range(times):
            Order.objects.filter(status="queued").update(retry_at=None)
            scheduling.look()
            for uuid in scheduling.orders_waiting():
                order_execute(uuid)
            for uuid in Deployment.objects.filter(status="queued").values_list("uuid", flat=True):
                deployment_execute(uuid)
            if not Order.objects.filter(status__in=["queued", "running"]).exists():
                return


def log_orders() -> None:
    """Log the course of every order and deployment; pytest shows it for a failed test."""
    for order in Order.objects.order_by("pk"):
        logger.warning(
            f"order {order.pk}: {order.status} at {order.step}, {order.progress or order.error or 'no problem'}"
        )
        for record in order.records.order_by("pk"):
            logger.warning(f"    {record.at:%H:%M:%S.%f} {record.step}: {record.text}")
    for deployment in Deployment.objects.order_by("pk"):
        logger.warning(f"deployment {deployment.pk} ({deployment.kind}): {deployment.status} {deployment.error}")


Make = Callable[..., World]


@pytest.fixture
def make_world(transactional_db: None, settings: Settings, server_root: Path) -> Iterator[Make]:
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    worlds: list[World] = []

    def make(engine: Engine, sshd: SshServer | None = None, kind: type[Any] | None = None) -> World:
        usual, layout = SERVERS[engine]
        world = World(Machine(server_root, sshd), (kind or usual)(server_root), engine, layout)
        worlds.append(world)
        if isinstance(world.server, OpenLiteSpeedInstance):
            world.server.manage()
        if engine not in (Engine.APACHE, Engine.OPENLITESPEED):  # which do not start without a port to listen on
            world.server.start()
        return world

    yield make
    log_orders()
    for world in worlds:
        world.server.stop()
        if world.pebble is not None:
            world.pebble.stop()
    pool.close()


@pytest.fixture
def far_world(make_world: Make, server_root: Path) -> Iterator[World]:
    """The same behind a real sshd."""
    with SshServer(server_root / "sshd") as sshd:
        yield make_world(Engine.NGINX, sshd)
        pool.close()


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(Engine.NGINX)
