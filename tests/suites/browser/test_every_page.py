"""Every page of the URLconf and the responses to its forms: no axe violation, no overflow and no raw value, in both
themes, at 1280 and at 320 px."""

from __future__ import annotations

import re
from typing import Any

import pyotp
import pytest
from django.utils import timezone
from playwright.sync_api import Browser, expect

from panel.accounts.models import User
from panel.accounts.services.setup import setup_link_ensure
from tests.suites.browser import world
from tests.suites.browser.page_inspection import (
    AXE,
    CONTRAST,
    LAYOUT,
    NARROW,
    SETTLED,
    WIDE,
    context_of,
    look_at,
    pages_of,
    posted,
    refused,
)
from tests.suites.browser.world.hosts import LONG_HOST
from tests.suites.security.addresses import API, addresses

SHARES = 2  # so that two processes can look at once


@pytest.fixture
def used(transactional_db: None) -> world.Used:
    return world.build()


def own_addresses() -> list[str]:
    """Those of the panel's pages. The API's answers and event streams are none."""
    return [address.path for address in addresses() if not re.search(rf"^{API}|/events/?$", address.path)]


@pytest.mark.parametrize("share", range(SHARES))
def test_pages_have_no_layout_or_accessibility_faults(
    browser: Browser, live_server: Any, used: world.Used, share: int
) -> None:
    """Includes the response to each empty form."""
    context = context_of(browser, live_server.url, used.admin)
    paths = [*own_addresses(), *used.more, "/sites/not-there/"]
    pages = list(pages_of(context, paths[share::SHARES]))
    assert len(pages) > 45, "most addresses are pages"
    wrong = look_at(context, pages)
    answers = list(refused(context, pages))
    assert len(answers) > 8, "most forms need a value"
    wrong += look_at(context, answers)
    context.close()
    assert not wrong, "\n".join(wrong)


def test_pages_reached_by_post_have_no_faults(browser: Browser, live_server: Any, used: world.Used) -> None:
    """A new token, recovery codes, a rejected import and the pages before sign-in."""
    context = context_of(browser, live_server.url, used.admin)
    pages = list(pages_of(context, ["/account/tokens/new/"]))
    token = {"name": "backup script", "scopes": "read", "lifetime": "30"}
    pages += posted(context, "/account/tokens/new/", token, "made")
    pages += posted(context, "/account/second-factor/recovery-codes/", {}, "Your recovery codes")
    for way in ("+read", "+upload"):
        pages += posted(context, f"/hosts/{LONG_HOST}/imports/{way}/", {}, "refused")
    assert len(pages) == 5
    wrong = look_at(context, pages)
    context.close()
    wrong += _signing_in(browser, live_server.url)
    assert not wrong, "\n".join(wrong)


def _signing_in(browser: Browser, url: str) -> list[str]:
    """A wrong password, the question for the code, a wrong code, and the door that is shut after too many."""
    user = User.objects.create_user(username="tess", password="quiet harbour lamp 9", role="viewer")
    user.totp_secret, user.totp_confirmed_at = pyotp.random_base32(), timezone.now()
    user.save()
    context = context_of(browser, url, None)
    pages = list(pages_of(context, ["/login/"]))
    wrong = {"username": "nobody", "password": "wrong"}
    pages += posted(context, "/login/", wrong, "wrong")
    assert not list(posted(context, "/login/", {"username": "tess", "password": "quiet harbour lamp 9"}, "right"))
    pages += pages_of(context, ["/login/code/"])
    pages += posted(context, "/login/code/", {"code": "000000"}, "wrong")
    tried = [shown for _ in range(20) for shown in posted(context, "/login/", wrong, "locked")]
    locked = [shown for shown in tried if shown.answer.status == 429]
    assert locked and len(pages) == 4
    found = look_at(context, [*pages, locked[0]])
    context.close()
    return found


def test_pages_of_restricted_users_have_no_faults(browser: Browser, live_server: Any, used: world.Used) -> None:
    """Hosts and settings as an operator sees them, and a forbidden page."""
    context = context_of(browser, live_server.url, used.owner)
    paths = ["/", "/sites/", "/hosts/", used.more[0], "/settings/", "/settings/users/", "/hosts/+new/"]
    wrong = look_at(context, pages_of(context, paths))
    context.close()
    assert not wrong, "\n".join(wrong)


def test_empty_panel_pages_have_no_faults(browser: Browser, live_server: Any, transactional_db: None) -> None:
    """The first account's page, sign-in, then every page without rows."""
    context = context_of(browser, live_server.url, None)
    pages = list(pages_of(context, [setup_link_ensure(renew=True), "/login/"]))
    wrong = look_at(context, [*pages, *refused(context, pages)])
    context.close()
    admin = User.objects.create(username="ada", role="admin")
    context = context_of(browser, live_server.url, admin)
    pages = list(pages_of(context, own_addresses(), statuses=(200,)))
    assert len(pages) > 20, "most pages of lists and forms need no row"
    wrong += look_at(context, pages)
    context.close()
    assert not wrong, "\n".join(wrong)


def test_dialogs_and_menus_have_no_faults(browser: Browser, live_server: Any, used: world.Used) -> None:
    """The phone menu, the search palette with results, help and a delete dialog."""
    context = context_of(browser, live_server.url, used.admin)
    page = context.new_page()
    wrong = []

    def check(what: str) -> None:
        page.evaluate(SETTLED)
        found = [*page.evaluate(AXE, None), *page.evaluate(CONTRAST, [])[1], *page.evaluate(LAYOUT)]
        wrong.extend(f"{what}: {item}" for item in found)

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
