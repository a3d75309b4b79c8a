"""Automatic HTTPS of a site whose host only a bastion reaches: the check goes through the bastion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.certificates import challenge_files, watching
from panel.certificates.acme_client import Challenge
from panel.certificates.choices import ChallengeKind
from panel.certificates.models import CertificateWatch
from panel.deployments.planning.selectors import live_revision
from panel.deployments.revisions.rendered import spec_of
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


def test_challenge_is_requested_through_the_bastion(inner: World, behind: Behind) -> None:
    account = inner.authority()
    assert inner.pebble is not None
    inner.pebble.resolve("shop.example", behind.bastion.address)
    site = inner.site()
    assert inner.run(inner.enable(site, account)).status == "succeeded"
    live = live_revision(site)
    assert live is not None
    host = inner.machine.host
    waiting = Challenge(ChallengeKind.HTTP, "shop.example", "", "", "token.thumbprint", "token")
    found = challenge_files.unanswered(spec_of(live), host, waiting)
    assert found.endswith(
        "the web server responds to the request for the challenge with status 404 instead of the file"
    )
    challenge_files.put(live.web_server, {waiting.file: waiting.content})
    assert challenge_files.unanswered(spec_of(live), host, waiting) == ""
    challenge_files.remove(live.web_server, [waiting.file])

    pool.close()
    behind.allow_forwarding(f'restrict,port-forwarding,permitopen="{host.address}:{host.port}"')
    assert challenge_files.unanswered(spec_of(live), host, waiting) == "", "this bastion lets the panel learn nothing"
