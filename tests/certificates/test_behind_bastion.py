"""Automatic HTTPS of a site whose host only a bastion reaches: the check goes through the bastion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.certificates import watching
from panel.certificates.models import CertificateWatch
from panel.hosts.models import Engine, Host, WebServer
from panel.remote import pool
from tests.certificates.conftest import Make, World
from tests.hosts.test_bastions import added
from tests.support.bastion import Behind, behind_bastion


@pytest.fixture
def behind(server_root: Path) -> Iterator[Behind]:
    with behind_bastion(server_root / "behind") as found:
        yield found
    pool.close()


@pytest.fixture
def inner(make_world: Make, behind: Behind) -> World:
    """The web server runs in the network of the bastion, and the panel reaches it through the bastion only."""
    world = make_world(Engine.NGINX, behind.hosts[0])
    world.server.stop()
    added(world.people.admin, "edge", behind.bastion.sshd)
    Host.objects.filter(pk=world.machine.host.pk).update(bastion=Host.objects.get(name="edge"))
    world.machine.host.refresh_from_db()
    return world


def test_certificate_is_seen_on_the_listeners_behind_the_bastion(inner: World, behind: Behind) -> None:
    account = inner.authority()
    assert inner.pebble is not None
    inner.pebble.resolve("shop.example", behind.bastion.address)
    order = inner.run(inner.enable(inner.site(), account))
    assert order.status == "succeeded", [str(row) for row in order.records.all()]
    assert order.seen == [{"listener": f"TCP *:{inner.https_port}", "name": "shop.example", "problem": ""}]
    WebServer.objects.update(is_running=True)
    assert watching.look(pause=lambda seconds: None) == 1
    assert CertificateWatch.objects.get().problems == []
