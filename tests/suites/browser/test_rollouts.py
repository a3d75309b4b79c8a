"""A rollout in the browser: started in waves on real hosts, seen to fail in the second, and undone by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from pytest_django import Settings

from panel.deployments.models import Deployment
from panel.remote import pool
from panel.rollouts.advancing import rollout_advance
from panel.rollouts.models import Rollout
from panel.websites import services as websites
from tests.deployments.real_host import Machine
from tests.rollouts.conftest import HOSTS, Fleet
from tests.suites.browser.conftest import ARTIFACTS
from tests.suites.browser.page_inspection import context_of
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port


@pytest.fixture
def fleet(transactional_db: None, settings: Settings, server_root: Path) -> Iterator[Fleet]:
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    with ExitStack() as stack:
        servers = [stack.enter_context(NginxInstance(server_root / f"n{number}")) for number in range(HOSTS)]
        yield Fleet(Machine(server_root), servers)
    pool.close()


def _change(fleet: Fleet) -> None:
    """New files, an access log of its own, and an application that is down."""
    admin = fleet.machine.people.admin
    fleet.change()
    for number, site in enumerate(fleet.sites):
        block = site.blocks.get()
        websites.block_update(actor=admin, block=block, access_log=str(fleet.log(number)))
        servers = [{"address": f"127.0.0.1:{free_port()}"}]
        upstream = websites.upstream_create(actor=admin, site=site, name="app", servers=servers)
        websites.location_create(actor=admin, block=block, pattern="/api/", handler="proxy", upstream=upstream)


def test_failed_wave_shows_its_evidence_and_undoes_the_rollout(
    browser: Browser, live_server: Any, fleet: Fleet
) -> None:
    _change(fleet)
    plan: Deployment = fleet.plan()
    context = context_of(browser, live_server.url, fleet.machine.people.admin)
    page = context.new_page()
    page.goto(f"/deployments/{plan.uuid}")
    page.get_by_role("link", name="Deploy in waves or later").click()
    page.get_by_label("Percent of the hosts in the second wave").fill("20")
    page.get_by_label("Seconds to observe each wave").fill("3")
    page.get_by_role("button", name="Start the rollout").click()
    expect(page.get_by_role("heading", name="Rollout in 3 waves")).to_be_visible()
    rollout = Rollout.objects.get()
    while fleet.waves(rollout)[1] != "observing":
        rollout_advance(rollout.uuid)
        fleet.work()
    expect(page.get_by_text("Observing", exact=True)).to_be_visible()
    page.screenshot(path=str(_shot("rollout-observed")), full_page=True)
    time.sleep(1.1)  # logs have whole seconds, and the second of the change is not counted
    for _ in range(30):
        assert ask(fleet.ports[1], "/api/", host="site-1.example").status == 502
    fleet.go_on(rollout)
    expect(page.get_by_text("site-1 on node-1: 30 of 30 requests").first).to_be_visible()
    expect(page.get_by_text("Paddock rolled back every host to its previous configuration.")).to_be_visible()
    page.screenshot(path=str(_shot("rollout-undone")), full_page=True)
    assert fleet.texts() == [f"old {number}" for number in range(HOSTS)]
    context.close()


def _shot(name: str) -> Path:
    ARTIFACTS.mkdir(exist_ok=True)
    return ARTIFACTS / f"{name}.png"
