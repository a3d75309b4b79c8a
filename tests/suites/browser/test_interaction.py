"""Interaction with pages: keyboard, dialogs, inline checks and unsaved input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, Route, expect

from panel.accounts.models import Team, User
from panel.benchmarks.runs.services import scenario_create
from panel.hosts.models import Host, HostStatus
from panel.hosts.services import host_create
from panel.websites import services
from panel.websites.models import RawSnippet, Site
from tests.deployments.sample_plans import live
from tests.deployments.sample_plans import shop as made_shop
from tests.support.cast import Cast, cast, signed_in
from tests.support.waiting import eventually
from tests.websites.conftest import shop_definition


@pytest.fixture
def people(transactional_db: None) -> Cast:
    return cast()


@pytest.fixture
def shop(people: Cast) -> Site:
    return services.site_define(actor=people.owner, data=shop_definition(people))


def page_of(browser: Browser, url: str, client: Client, **options: Any) -> Page:
    context = browser.new_context(base_url=url, **options)
    session = client.cookies["paddock_session"].value
    context.add_cookies([{"name": "paddock_session", "value": session, "url": url}])
    page = context.new_page()
    page.set_default_timeout(15_000)
    return page


@pytest.fixture
def page(browser: Browser, live_server: Any, people: Cast, shop: Site) -> Iterator[Page]:
    """A page of an administrator; whatever the browser complains about fails the test."""
    page = page_of(browser, live_server.url, signed_in(people.admin))
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    yield page
    page.context.close()
    assert not complaints


def test_pages_are_usable_by_keyboard(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("shop.ex")
    page.wait_for_selector(".results a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sites/shop/")
    page.keyboard.press("g")
    page.keyboard.press("h")
    page.wait_for_url("**/hosts/")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="web-1")).to_be_focused()
    page.keyboard.press("x")
    expect(page.get_by_label("Select web-1")).to_be_checked()
    expect(page.get_by_role("button", name="Check", exact=True)).to_be_enabled()
    page.keyboard.press("?")
    page.wait_for_selector("#dialog[open] #keys-on")
    page.uncheck("#keys-on")
    page.keyboard.press("Escape")
    assert page.locator("#dialog[open]").count() == 0
    page.keyboard.press("/")
    assert page.locator("#search-dialog[open]").count() == 0  # single keys are off now


def test_delete_dialog_waits_for_name_and_returns_focus(page: Page) -> None:
    page.goto("/sites/shop/")
    page.click("text=Delete")
    page.wait_for_selector("#dialog[open] [data-confirm-name]")
    assert page.is_disabled("#dialog [data-confirm-submit]")
    page.keyboard.type("shop")
    assert page.is_enabled("#dialog [data-confirm-submit]")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent").strip() == "Delete"
    assert Site.objects.exists()


def test_field_error_appears_while_typing_and_disappears_when_fixed(page: Page, shop: Site) -> None:
    page.goto(f"/sites/shop/blocks/{shop.blocks.get().pk}/")
    page.fill("#id_names", "test..com")
    page.wait_for_selector("#id_names-error p")
    assert "two dots in a row" in page.inner_text("#id_names-error")
    assert page.get_attribute("#id_names", "aria-invalid") == "true"
    page.fill("#id_names", "shop.example")
    page.wait_for_selector("#id_names:not([aria-invalid])")
    assert page.inner_text("#id_names-error") == ""


def test_leaving_page_with_unsaved_input_asks_first(page: Page, shop: Site) -> None:
    asked: list[str] = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    url = f"/sites/shop/blocks/{shop.blocks.get().pk}/"
    page.goto(url)
    page.fill("#id_root", "/srv/www/elsewhere")
    assert page.is_visible("[data-unsaved]")
    with page.expect_event("dialog"):
        page.click("text=Cancel")
    assert asked == ["beforeunload"]
    assert page.url.endswith(url)
    page.click("text=Save the draft")
    page.wait_for_url("**/sites/shop/blocks/")
    assert asked == ["beforeunload"]
    assert shop.blocks.get().root == "/srv/www/elsewhere"


def test_list_filters_while_typing(page: Page) -> None:
    page.goto("/sites/")
    page.fill(".toolbar input[type=search]", "nothing like it")
    page.wait_for_selector("text=No site matches")
    assert "q=nothing" in page.url
    page.fill(".toolbar input[type=search]", "www.shop")
    page.wait_for_selector("#list a.name")


def test_click_during_pending_check_uses_current_input(page: Page) -> None:
    """The page checks while the user types. A click during a check is handled next, with the current input."""
    held: list[Route] = []
    page.goto("/sites/shop/explain/")
    page.route("**/explain/?url=*", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/explain/?url=*"):
        page.fill("[name=url]", "http://shop.example/api/cart")
    page.fill("[name=url]", "http://shop.example/health")
    page.get_by_role("button", name="Find the location").click()
    held[0].continue_()
    expect(page.locator(".explain-location")).to_contain_text("/health")
    page.wait_for_url("**/explain/?url=*health")
    page.reload()
    expect(page.locator(".explain-location")).to_contain_text("/health")


def test_pages_work_without_scripts(browser: Browser, live_server: Any, people: Cast, shop: Site) -> None:
    size: Any = {"width": 360, "height": 800}
    page = page_of(browser, live_server.url, signed_in(people.owner), java_script_enabled=False, viewport=size)
    page.goto("/")
    page.click("nav >> text=Sites")
    page.click("a.name >> text=shop")
    page.click("text=Delete")
    page.fill("[name=confirm]", "shop")
    page.click("button >> text=Delete")
    page.wait_for_url("**/sites/")
    page.context.close()
    assert not Site.objects.exists()


def test_saved_view_keeps_typed_filter(page: Page) -> None:
    page.goto("/sites/")
    expect(page.get_by_text("Save as a view")).to_have_count(0)
    page.fill(".toolbar input[type=search]", "www.shop")
    page.wait_for_url("**/sites/?q=www.shop*")
    # Leaving the search box asks for the list again; what is typed meanwhile must not be lost.
    page.get_by_text("Save as a view").click()
    page.get_by_label("View name").fill("Shops")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name="Shops")).to_have_attribute("aria-current", "true")
    page.goto("/sites/")
    page.get_by_role("link", name="Shops").click()
    page.wait_for_url("**/sites/?q=www.shop")
    page.get_by_role("button", name="Delete this view").click()
    expect(page.get_by_role("link", name="Shops")).to_have_count(0)


PASSWORD = "quiet harbour lamp 9"


def signed_in_with(user: User, password: str) -> Client:
    """Somebody who can sign in once more with it."""
    user.set_password(password)
    user.save()
    return signed_in(user)


def test_typed_input_is_restored_after_password_confirmation(
    browser: Browser, live_server: Any, people: Cast, shop: Site
) -> None:
    """The confirmation can expire while the user types."""
    client = signed_in_with(people.admin, PASSWORD)
    page = page_of(browser, live_server.url, client)
    page.goto(f"/sites/shop/snippets/+new/?block={shop.blocks.get().pk}")
    page.fill("textarea[name=text]", "add_header X-Kept yes;")
    session = client.session
    session["sudo_at"] = 0
    session.save()
    page.click("main form button.primary")
    page.fill("input[name=password]", PASSWORD)
    page.click("main form button.primary")
    expect(page.locator("textarea[name=text]")).to_have_value("add_header X-Kept yes;")
    expect(page.locator("#messages")).to_contain_text("Submit the form once more")
    assert not RawSnippet.objects.exists(), "nothing is sent by itself"
    page.reload()
    expect(page.locator("textarea[name=text]")).to_have_value("")
    page.context.close()


def test_typed_input_is_restored_after_new_sign_in(
    browser: Browser, live_server: Any, people: Cast, shop: Site
) -> None:
    """The session can end while the user types: the form stays, says so, and loses only secrets."""
    client = signed_in_with(people.admin, PASSWORD)
    page = page_of(browser, live_server.url, client)
    page.goto(f"/sites/shop/blocks/{shop.blocks.get().pk}/locations/+new/")
    client.session.flush()
    page.fill("[name=pattern]", "/kept/")
    expect(page.locator("#messages")).to_contain_text("Your session has ended")
    expect(page.locator("[name=pattern]")).to_have_value("/kept/")
    page.click("main form button.primary")
    expect(page.locator("main")).to_contain_text("Your session ended before your changes were")
    page.fill("[name=username]", people.admin.username)
    page.fill("[name=password]", PASSWORD)
    page.click("main form button.primary")
    expect(page.locator("[name=pattern]")).to_have_value("/kept/")
    expect(page.locator("#messages")).to_contain_text("Submit the form once more")
    page.context.close()


def test_checkbox_filter_keeps_selected_boxes(page: Page) -> None:
    for number in range(14):
        Team.objects.create(name=f"Customer {number}", slug=f"customer-{number}")
    page.goto("/settings/users/new/")
    page.get_by_label("Customer 3", exact=True).check()
    page.get_by_label("Teams: Filter this list").fill("customer 1")
    expect(page.get_by_label("Customer 12", exact=True)).to_be_visible()
    expect(page.get_by_label("Customer 3", exact=True)).to_be_visible()
    expect(page.get_by_label("Customer 5", exact=True)).to_be_hidden()
    page.keyboard.press("Enter")  # meant for the boxes, not for the form
    assert page.url.endswith("/settings/users/new/")


def new_run_of_tagged_sites(page: Page, people: Cast) -> None:
    """Open the page of a new run: two live sites have the tag eu, and the third one is ticked."""
    for name, tags in (("one", ["eu"]), ("two", ["eu"]), ("three", [])):
        site = made_shop(people, name)
        services.site_update(actor=people.owner, site=site, tags=tags)
        live(people, site)
    scenario_create(actor=people.admin, name="Front page", tool="ab", arguments={"requests": 10}, paths=["/"])
    page.goto("/benchmarks/new")
    page.get_by_label("three").check()


def test_tag_selects_all_its_sites(page: Page, people: Cast) -> None:
    people.host.status = HostStatus.UNREACHABLE  # so that plans do not ask it
    people.host.save()
    new_run_of_tagged_sites(page, people)
    page.get_by_label("Tag", exact=True).select_option("eu")
    expect(page.get_by_role("button", name="Select all 3")).to_be_visible()
    page.get_by_role("button", name="Select all 3").click()
    for name in ("one", "two", "three"):
        expect(page.get_by_role("checkbox", name=name)).to_be_checked()


def test_boxes_ticked_during_a_search_stay_ticked(page: Page, people: Cast) -> None:
    """The response knows only the boxes that were ticked when the search began."""
    new_run_of_tagged_sites(page, people)
    held: list[Route] = []
    page.route(re.compile("tag=eu"), lambda route: held.append(route))
    with page.expect_request(re.compile("tag=eu")):
        page.get_by_label("Tag", exact=True).select_option("eu")
    page.get_by_label("three").uncheck()
    page.get_by_label("two").check()
    page.locator("#site-choices").evaluate("element => element.dataset.isOld = ''")
    held[0].continue_()
    expect(page.locator("#site-choices[data-is-old]")).to_have_count(0)
    for name, is_checked in (("one", False), ("two", True), ("three", False)):
        expect(page.get_by_role("checkbox", name=name)).to_be_checked(checked=is_checked)


def test_select_all_includes_rows_of_other_pages(page: Page) -> None:
    Host.objects.bulk_create(Host(name=f"db-{number:02}", site_roots=["/srv/www"]) for number in range(60))
    page.goto("/hosts/?q=db-")
    page.get_by_role("button", name="Select all 60 matching").click()
    expect(page.locator("[data-ticked]")).to_have_text("60")
    page.get_by_label("Select db-07").uncheck()
    expect(page.locator("[data-ticked]")).to_have_text("59")
    page.get_by_role("button", name="Tags").click()
    expect(page.get_by_role("heading", name="Tags of 59 hosts")).to_be_visible()


def test_copy_selects_the_text_when_the_browser_denies_the_clipboard(page: Page, people: Cast) -> None:
    host_create(actor=people.admin, name="web-9", address="192.0.2.9", username="root", site_roots=["/srv/www"])
    page.goto("/hosts/web-9/")
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new DOMException('denied')) }")
    page.locator(".command", has=page.locator("#prepare-command")).get_by_role("button", name="Copy").click()
    assert eventually(lambda: "authorized_keys" in page.evaluate("getSelection().toString()"))


IS_IN_FIRST_VIEW = (
    "item => { const box = item.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight }"
)


def test_first_site_is_offered_without_scrolling(page: Page, shop: Site) -> None:
    """On a usual laptop: first on the page of a host without sites, then in the form."""
    shop.delete()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/hosts/web-1/")
    link = page.get_by_role("link", name="Create a site", exact=True)
    expect(link).to_have_count(1)
    assert link.evaluate(IS_IN_FIRST_VIEW)
    link.click()
    assert page.get_by_role("button", name="Create the draft").evaluate(IS_IN_FIRST_VIEW)
