"""The traffic pages with counts: no faults in both themes and widths, and refreshed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect
from pytest_django import Settings

from tests.deployments.gallop_host import two_sites, with_gallop
from tests.deployments.real_host import Machine
from tests.suites.browser.conftest import ARTIFACTS
from tests.suites.browser.page_inspection import context_of, look_at, pages_of
from tests.support.http_client import ask

MINUTE_MS = 60_000


@pytest.fixture
def machine(transactional_db: None, server_root: Path, settings: Settings) -> Iterator[Machine]:
    with with_gallop(server_root, settings) as found:
        two_sites(found)
        yield found


def test_traffic_page_shows_and_refreshes_counts(browser: Browser, live_server: Any, machine: Machine) -> None:
    for path in ("/", "/", "/missing"):
        ask(machine.port, path, host="shop.example")
    context = context_of(browser, live_server.url, machine.people.admin)
    page = context.new_page()
    page.goto("/sites/shop/traffic/")
    status = page.get_by_role("img", name="Share of each status class")
    expect(status).to_be_visible(timeout=MINUTE_MS)
    expect(page.get_by_text("4xx")).to_be_visible(timeout=MINUTE_MS)
    for _ in range(20):
        ask(machine.port, "/moved/", host="shop.example")
    expect(page.locator("dd", has_text=re.compile(r"^\s*21\b"))).to_be_visible(timeout=MINUTE_MS)
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "traffic-site.png", full_page=True)
    page.goto(f"/hosts/{machine.host.name}/traffic/")
    expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible(timeout=MINUTE_MS)
    page.screenshot(path=ARTIFACTS / "traffic-host.png", full_page=True)
    page.close()
    paths = ["/sites/shop/traffic/", f"/hosts/{machine.host.name}/traffic/"]
    wrong = look_at(context, pages_of(context, paths, statuses=(200,)))
    context.close()
    assert not wrong, "\n".join(wrong)
