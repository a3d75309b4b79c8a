"""Which server should a site use, by hand: choose, watch, read the result, switch and go back. The servers are real;
the test itself is the worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from panel.comparisons import execution
from panel.comparisons.comparing import Verdict
from panel.comparisons.models import Comparison
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import DeploymentStatus
from tests.comparisons.conftest import LiveSites, brief, live_sites, logged
from tests.suites.browser.conftest import ARTIFACTS
from tests.suites.browser.test_interaction import page_of
from tests.support.cast import signed_in

__all__ = ["brief", "live_sites"]


@pytest.fixture
def page(browser: Browser, live_server: Any, live_sites: LiveSites) -> Iterator[Page]:
    page = page_of(browser, live_server.url, signed_in(live_sites.machine.people.owner))
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.context.close()
    assert not complaints


def look(page: Page, name: str) -> None:
    """Keeps pictures, wide and light, dark on a phone. Whether they are sound is test_every_page.py's to say."""
    ARTIFACTS.mkdir(exist_ok=True)
    looks: tuple[tuple[Any, int], ...] = (("dark", 320), ("light", 1280))
    for scheme, width in looks:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 860})
        page.screenshot(path=str(ARTIFACTS / f"comparison-{name}-{scheme}-{width}.png"), full_page=True)


def switched(page: Page) -> None:
    """Confirms the dialog and carries the switch out; the page notices by itself."""
    page.click("#dialog button:has-text('Move now')")
    expect(page.get_by_text("Paddock is moving the site. The current web server")).to_be_visible()
    comparison = Comparison.objects.select_related("switch").get()
    assert comparison.switch is not None
    deployment_execute(comparison.switch.uuid)
    comparison.switch.refresh_from_db()
    assert comparison.switch.status == DeploymentStatus.SUCCEEDED, comparison.switch.error


def test_site_is_compared_on_every_web_server_and_switched(
    page: Page, live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged(live_sites, ["/"] * 6 + ["/index.html"] * 3 + ["/old"], queries=True)
    page.goto("/sites/shop/")
    page.click("text=Compare web servers")
    page.click("text=Preview the requests")
    expect(page.locator("#replay")).to_contain_text("/index.html")
    expect(page.locator("#replay")).not_to_contain_text("secret")
    for server in ("Apache httpd", "gallop"):  # known as stopped: starting them is for who ticks them
        expect(page.get_by_label(server)).not_to_be_checked()
        page.get_by_label(server).check()
    look(page, "form")
    for name, value in (("concurrency", "2"), ("duration_s", "1"), ("rounds", "3")):
        page.fill(f"[name={name}]", value)
    page.click("button:has-text('Start the comparison')")
    page.wait_for_url(re.compile(r"/comparisons/[0-9a-f-]{36}$"))
    real = execution.compare

    def seen_meanwhile(*arguments: Any, **named: Any) -> Verdict:
        page.reload()  # the test's web server sends an event stream whole, at its end
        expect(page.locator("#job-live")).to_contain_text("Comparing responses.")
        look(page, "running")
        return real(*arguments, **named)

    monkeypatch.setattr(execution, "compare", seen_meanwhile)
    execution.comparison_execute(Comparison.objects.get().uuid)
    expect(page.get_by_role("heading", name="Web servers compared")).to_be_visible()
    expect(page.locator("table.servers")).to_contain_text("gallop")
    expect(page.get_by_text("Skipped in the replay")).to_be_visible()
    look(page, "result")
    page.click("text=Move to gallop")
    page.wait_for_selector("#dialog[open] #confirm")
    switched(page)
    expect(page.get_by_text("The site was moved from nginx to gallop.")).to_be_visible()
    look(page, "switched")
    page.goto("/sites/shop/servers/")
    page.click("text=Move back to nginx")
    page.wait_for_selector("#dialog[open] #confirm")
    switched(page)
    expect(page.locator("table.servers tr", has_text="serves the site")).to_contain_text("nginx")
