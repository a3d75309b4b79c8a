"""Every page there is, from the URLconf itself: axe finds nothing, nothing hangs over, nothing shows raw values.

Each page is opened once: axe looks at it wide and light, then dark and narrow (320 px: less than any phone).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from playwright.sync_api import Browser, BrowserContext, Page, expect

from panel.accounts.models import User
from panel.accounts.services.setup import setup_link_ensure
from tests.browser import world
from tests.security.addresses import API, addresses
from tests.support.cast import signed_in

# The browser's event loop runs in the thread that also asks the database.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
WIDE: Any = {"width": 1280, "height": 900}
NARROW: Any = {"width": 320, "height": 800}
# What no reader should meet: Django's empty choice, a value without its words, a template that printed nothing.
RAW = re.compile(r"---------|^None$|\{'|\['|&lt;|<\w+ object|__", re.M)

AXE = """async (rules) => (await axe.run({resultTypes: ["violations"], ...(rules && {runOnly: rules})})).violations.map(
    (item) => item.id + " " + item.nodes.map((node) => node.target.join(" ")).slice(0, 3).join("; "))"""
# What may differ between themes and widths; all else is the same document.
LOOKS = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"]
# Where a phone's page would have to be scrolled sideways, and cells so narrow that their words break into letters.
LAYOUT = """() => {
  const found = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const over = (item) => item.getBoundingClientRect().right > root.clientWidth + 1;
    const wide = [...document.querySelectorAll("main *")].find(over);
    found.push("wider than the window: " + (wide ? wide.outerHTML.slice(0, 120) : ""));
  }
  for (const cell of document.querySelectorAll(".cards tbody :is(td, th), dd, .message p")) {
    const isNarrow = cell.clientWidth > 0 && cell.clientWidth < 90;
    if (isNarrow && cell.innerText.trim().length > 12) found.push("squeezed: " + cell.outerHTML.slice(0, 120));
  }
  const tab = document.querySelector(".tabs [aria-current]");
  if (tab) {
    const box = tab.getBoundingClientRect();
    if (box.left < 0 || box.right > root.clientWidth) found.push("the current tab is out of view");
  }
  return found;
}"""
# A card's lines must be named as the columns are.
CARDS = """() => [...document.querySelectorAll(".table")].flatMap((table) => {
  if (!table.matches(".cards, .matrix")) return ["a table that is neither cards nor matrix"];
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  return [...table.querySelectorAll("tbody tr")].flatMap((row) => [...row.cells].flatMap((cell, index) =>
    cell.dataset.label !== undefined && cell.dataset.label !== heads[index]
      ? ["a cell of " + heads[index] + " is labelled " + cell.dataset.label] : []));
})"""


@pytest.fixture
def used(transactional_db: None) -> world.Used:
    return world.build()


def context_of(browser: Browser, url: str, user: User | None) -> BrowserContext:
    context = browser.new_context(base_url=url, viewport=WIDE, color_scheme="light", reduced_motion="reduce")
    if user is not None:
        session = signed_in(user).cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": url}])
    context.set_default_timeout(60_000)
    return context


def faults(page: Page) -> Iterator[str]:
    """What is wrong with the page that stands there, in both themes and widths."""
    page.evaluate(Axe().axe_script)
    yield from (f"light, wide: {item}" for item in page.evaluate(AXE, None))
    yield from page.evaluate(CARDS)
    yield from (f"shows {raw}" for raw in RAW.findall(page.inner_text("main")))
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    yield from (f"dark, narrow: {item}" for item in page.evaluate(AXE, LOOKS))
    yield from (f"narrow: {item}" for item in page.evaluate(LAYOUT))


def own_addresses() -> list[str]:
    """Those of the panel's pages. The API's answers and event streams are none."""
    return [address.path for address in addresses() if not re.search(rf"^{API}|/events$", address.path)]


def pages_of(context: BrowserContext, paths: list[str], statuses: tuple[int, ...] = (200, 403, 404)) -> list[str]:
    """Those that answer a GET with a whole page: no file, no part of a page, nothing that leads on or takes a POST."""

    def is_page(path: str) -> bool:
        answer = context.request.get(path, max_redirects=0)
        if answer.status not in statuses or "text/html" not in answer.headers.get("content-type", ""):
            return False
        return "<!doctype html>" in answer.text()

    return [path for path in dict.fromkeys(paths) if is_page(path)]


def look_at(context: BrowserContext, paths: list[str]) -> list[str]:
    """What is wrong with these pages."""
    page, wrong = context.new_page(), []
    for path in paths:
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        page.goto(path)
        wrong += [f"{path}: {fault}" for fault in faults(page)]
    page.close()
    return wrong


def test_every_page_is_sound_in_both_themes_and_widths(browser: Browser, live_server: Any, used: world.Used) -> None:
    context = context_of(browser, live_server.url, used.admin)
    paths = pages_of(context, [*own_addresses(), *used.more, "/sites/not-there/"])
    assert len(paths) > 90, "most addresses are pages"
    wrong = look_at(context, paths)
    context.close()
    assert not wrong, "\n".join(wrong)


def test_pages_for_who_may_less(browser: Browser, live_server: Any, used: world.Used) -> None:
    """What an operator sees of hosts and settings, and a refusal."""
    context = context_of(browser, live_server.url, used.owner)
    wrong = look_at(
        context, ["/", "/sites/", "/hosts/", used.more[0], "/settings/", "/settings/users/", "/hosts/+new/"]
    )
    context.close()
    assert not wrong, "\n".join(wrong)


def test_an_empty_panel_is_sound_from_its_first_page(
    browser: Browser, live_server: Any, transactional_db: None
) -> None:
    """The first account's page, signing in, then every page while there is nothing yet."""
    context = context_of(browser, live_server.url, None)
    wrong = look_at(context, [setup_link_ensure(renew=True), "/login/"])
    context.close()
    admin = User.objects.create(username="ada", role="admin")
    context = context_of(browser, live_server.url, admin)
    paths = pages_of(context, own_addresses(), statuses=(200,))
    assert len(paths) > 20, "most pages of lists and forms need no row"
    wrong += look_at(context, paths)
    context.close()
    assert not wrong, "\n".join(wrong)


def test_what_opens_over_a_page_is_sound_too(browser: Browser, live_server: Any, used: world.Used) -> None:
    """The phone's menu, the search palette with results, help, and a question before something is lost."""
    context = context_of(browser, live_server.url, used.admin)
    page = context.new_page()
    wrong = []

    def check(what: str) -> None:
        page.evaluate(Axe().axe_script)
        wrong.extend(f"{what}: {item}" for item in [*page.evaluate(AXE, None), *page.evaluate(LAYOUT)])

    page.set_viewport_size(NARROW)
    page.goto("/sites/shop/")
    page.click("[data-menu-toggle]")
    expect(page.locator("#shell-menu nav")).to_be_visible()
    check("menu")
    page.click("[data-menu-toggle]")
    page.click(".shell-search-small")
    page.fill("#palette-input", "shop")
    expect(page.locator(".results a").first).to_be_visible()
    check("search")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Delete").click()
    expect(page.locator("#dialog [data-confirm-submit]")).to_be_visible()
    check("deletion")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(WIDE)
    check("deletion, dark")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#dialog #help")).to_be_visible()
    check("help")
    context.close()
    assert not wrong, "\n".join(wrong)
