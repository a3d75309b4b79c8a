"""The first hour of a new administrator with two hosts that boot with systemd: from the setup link to a reboot.

Each step asserts what the pages say and what another HTTP client gets. With PADDOCK_FIRST_HOUR=1 the walk also writes
the table and the pictures of docs/results/first-hour.md.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.suites.browser.conftest import ROOT, Eyes, Panel, running_panel
from tests.suites.browser.counted_page import CountedPage, table
from tests.suites.browser.first_hour_hosts import EXISTING, existing_site, wordpress
from tests.support.debian_hosts import DebianHost
from tests.support.http_client import Answer, ask
from tests.support.namespace_hosts import Switch
from tests.support.waiting import eventually

PASSWORD = "rusty gate opens slowly 7"
RECORDS = os.environ.get("PADDOCK_FIRST_HOUR") == "1"
PICTURES = ROOT / "docs" / "images" / "first-hour"
RESULTS = ROOT / "docs" / "results" / "first-hour.md"
POOL = "unix:/run/php/php8.2-fpm.sock"


@dataclass
class Hosts:
    """web-1 runs nginx and PHP, web-2 runs Apache; `prepared` is done once web-1 has WordPress's files."""

    first: DebianHost
    second: DebianHost
    prepared: Future[None]
    cut_at: float = 0.0


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with ExitStack() as ended:
        folder = Path(ended.enter_context(tempfile.TemporaryDirectory(prefix="pdf-")))
        switch = ended.enter_context(Switch())
        first = ended.enter_context(DebianHost(folder / "1", switch, "web-1", ["nginx", "php8.2-fpm"]))
        second = ended.enter_context(DebianHost(folder / "2", switch, "web-2", ["apache2"]))
        existing_site(first, "nginx")
        existing_site(second, "apache2")
        threads = ended.enter_context(ThreadPoolExecutor(1))
        yield Hosts(first, second, threads.submit(wordpress, first))


@pytest.fixture(scope="module")
def panel() -> Iterator[Panel]:
    """A panel that does not manage its own machine, as the package installs it."""
    with running_panel(PADDOCK_LOCAL_HOST="0") as panel:
        yield panel


@pytest.fixture(scope="module")
def walk(eyes: Eyes) -> CountedPage:
    eyes.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return CountedPage(eyes.page, PICTURES if RECORDS else None)


def test_step_1_setup_link_creates_first_account(panel: Panel, walk: CountedPage) -> None:
    with walk.stage("Sign in by the setup link"):
        walk.page.goto(panel.setup_url)
        walk.fill("username", "ada")
        walk.fill("password", PASSWORD)
        walk.fill("again", PASSWORD)
        walk.picture("1-first-account")
        walk.button("Create account")
        expect(walk.page.get_by_role("link", name="Add your first host")).to_be_visible()
    # A person does not arrive within the second in which the worker and the scheduler start.
    assert shows_in_time(walk, walk.page.locator("main"), "All checks passed.")


def test_step_2_host_is_added_by_one_pasted_line(walk: CountedPage, hosts: Hosts) -> None:
    with walk.stage("Add the first host by the line to paste"):
        walk.link("Add your first host")
        add_host(walk, hosts.first, picture="2-line-to-paste")
        expect(row(walk, "nginx")).to_contain_text("Running")
        expect(walk.page.locator("main")).to_contain_text("Uptime")
        expect(walk.page.get_by_role("link", name="Create a site")).to_be_visible()
        walk.picture("3-host-ready")
    assert get(hosts.first, "nobody.example").status == 200  # the distribution's own page


def test_step_3_first_site_responds_with_200(walk: CountedPage, hosts: Hosts) -> None:
    with walk.stage("First site, until it responds with 200"):
        walk.link("Create a site")
        walk.fill("name", "hello")
        walk.fill("domains", "hello.example")
        walk.choose("web_server", "nginx on web-1")
        walk.button("Create the draft")
        walk.button("Plan deployment")
        expect(walk.page.locator("main")).to_contain_text("This plan creates it with a placeholder page.")
        deploy(walk)
        walk.picture("4-first-site")
    response = get(hosts.first, "hello.example")
    assert response.status == 200 and "not been published yet" in response.text
    expect(walk.page.get_by_role("link", name="Open hello")).to_have_attribute("href", "http://hello.example/")


def test_step_4_wordpress_is_served_and_hardened(walk: CountedPage, hosts: Hosts) -> None:
    hosts.prepared.result(timeout=120)
    with walk.stage("WordPress, hardened"):
        walk.link("Sites")
        walk.link("New site")
        walk.click(walk.page.locator("main label", has_text="WordPress"))
        walk.fill("name", "blog")
        walk.fill("domains", "blog.example")
        walk.choose("web_server", "nginx on web-1")
        expect(walk.page.locator("main [name=php_address]")).to_have_value(POOL)  # the only one of the hosts
        walk.button("Create the draft")
        walk.button("Plan deployment")
        walk.picture("5-wordpress-plan")
        deploy(walk)
    assert "Our blog" in get(hosts.first, "blog.example").text
    assert "wp-submit" in get(hosts.first, "blog.example", "/wp-login.php").text
    refused = ("/wp-content/uploads/picture.php", "/xmlrpc.php", "/wp-config.php", "/.git/config", "/readme.html")
    assert {get(hosts.first, "blog.example", path).status for path in refused} == {403}
    signing_in = [get(hosts.first, "blog.example", "/wp-login.php").status for _ in range(20)]
    assert signing_in.count(200) <= 14 and set(signing_in) == {200, 429}


def test_step_5_existing_nginx_site_is_imported(walk: CountedPage, hosts: Hosts) -> None:
    before = get(hosts.first, "old-shop.example")
    assert before.text == f"{EXISTING}\n"
    with walk.stage("Import a site of nginx"):
        walk.link("Hosts")
        walk.link("web-1")
        take_over(walk, "nginx on web-1", "old-shop")
        walk.picture("6-imported")
    after = get(hosts.first, "old-shop.example")
    assert (after.status, after.text) == (200, before.text)
    assert get(hosts.first, "old-shop.example", "/cart").status == 302
    assert get(hosts.first, "hello.example").status == 200


def test_step_6_second_host_with_apache_is_added_and_imported(walk: CountedPage, hosts: Hosts) -> None:
    with walk.stage("Add the second host"):
        walk.link("Hosts")
        walk.link("Add a host")
        add_host(walk, hosts.second)
        expect(row(walk, "Apache httpd")).to_contain_text("Running")
    with walk.stage("Import a site of Apache"):
        take_over(walk, "Apache httpd on web-2", "old-club-example")
    assert get(hosts.second, "old-club.example").text == f"{EXISTING}\n"
    assert get(hosts.second, "old-club.example", "/news").status == 301


def test_step_7_mistyped_folder_is_rolled_back_and_undone(walk: CountedPage, hosts: Hosts) -> None:
    with walk.stage("A mistake, rolled back and undone"):
        walk.link("Sites")
        walk.link("blog")
        walk.link("Configuration")
        walk.click(walk.page.locator("main").get_by_role("link", name="Edit").first)
        walk.fill("root", "/srv/www/blgo")
        walk.button("Save the draft")
        walk.button("Plan deployment")
        expect(walk.page.locator("main")).to_contain_text("The folder /srv/www/blgo does not exist on web-1.")
        walk.button("Deploy")
        expect(walk.page.locator(".live-state")).to_contain_text("rolled the host back to the previous configuration")
        expect(walk.page.get_by_role("link", name="Restore the draft to #1")).to_be_visible()
        walk.picture("7-rolled-back")
        assert "Our blog" in get(hosts.first, "blog.example").text
        walk.link("Restore the draft to #1")
        walk.button("Restore the draft to this revision")
        expect(walk.page.locator("main")).to_contain_text("there is nothing to deploy")


def test_step_8_rebooted_host_serves_its_sites_again(walk: CountedPage, hosts: Hosts) -> None:
    hosts.second.plug(False)  # step 9 waits until the pages say so
    hosts.cut_at = time.monotonic()
    with walk.stage("A host reboots"):
        hosts.first.power_off()
        assert not eventually(lambda: get(hosts.first, "hello.example", timeout_s=1).status == 200, timeout_s=1)
        hosts.first.power_on()
        for site in ("hello", "blog", "old-shop"):
            assert eventually(lambda site=site: get(hosts.first, f"{site}.example").status == 200, timeout_s=30)
        walk.link("Hosts")
        walk.link("web-1")
        walk.button("Check")
        expect(walk.page.locator("main")).to_contain_text("Uptime")
        expect(row(walk, "nginx")).to_contain_text("Running")
    sites = walk.page.locator("#sites tbody tr")
    for site in ("hello", "blog", "old-shop"):
        state = sites.filter(has_text=site)
        assert shows_in_time(walk, state, "Live"), state.inner_text()


def test_step_9_cut_host_is_unreachable_and_returns(walk: CountedPage, hosts: Hosts) -> None:
    with walk.stage("A host is cut off, and back", began=hosts.cut_at):
        walk.link("Hosts")
        cell = walk.page.locator("main tbody tr", has_text="web-2")
        assert shows_in_time(walk, cell, "Unreachable")
        walk.link("Dashboard")
        expect(walk.page.locator("main")).to_contain_text("Host web-2")
        walk.picture("8-host-cut")
        walk.link("Sites")
        assert shows_in_time(walk, walk.page.locator("main tbody tr", has_text="hello.example"), "Live")
        state = walk.page.locator("main tbody tr", has_text="old-club.example")
        assert shows_in_time(walk, state, "Deployed, not observed")
        hosts.second.plug(True)
        assert shows_in_time(walk, state, "Live")
    assert get(hosts.second, "old-club.example").text == f"{EXISTING}\n"


def test_step_10_walk_has_no_console_errors_and_is_recorded(eyes: Eyes, walk: CountedPage) -> None:
    assert eyes.complaints == []
    assert sum(stage.lines for stage in walk.stages) == 2
    if RECORDS:
        text = RESULTS.read_text(encoding="utf-8")
        generated = f"<!-- walk -->\n{table(walk.stages)}<!-- end of walk -->"
        RESULTS.write_text(
            re.sub(r"<!-- walk -->.*<!-- end of walk -->", generated, text, flags=re.S), encoding="utf-8"
        )


def add_host(walk: CountedPage, host: DebianHost, picture: str = "") -> None:
    """Fill in the form, paste the shown line on the host, compare the fingerprints and trust the key."""
    expect(walk.page.locator("main [name=username]")).to_have_value("paddock")
    walk.fill("name", host.name)
    walk.fill("address", host.address)
    walk.button("Add the host and read its SSH key")
    line = walk.page.locator("#prepare-command")
    expect(line).to_contain_text("useradd")
    if picture:
        walk.picture(picture)
    walk.click(line.locator("xpath=..").get_by_role("button", name="Copy"))
    said = walk.paste(host.shell)
    offered = walk.page.locator("#trust dd").first
    assert offered.inner_text() in said
    walk.button("The fingerprints match: trust this key")
    expect(walk.page.locator(".message-line").first).to_contain_text("Ready")


def take_over(walk: CountedPage, web_server: str, site: str) -> None:
    """From the host's page: read the web server's configuration, adopt the site, and deploy it."""
    walk.link("Import existing sites")
    if walk.page.locator("#read select option").count() > 1:
        walk.click(walk.page.locator("#read select"))
        walk.page.locator("#read select").select_option(label=web_server)
    walk.button("Read")
    walk.tick(f"Select {site}")
    walk.tick("Add these folders to the host's site folders")
    walk.button("Adopt selected sites")
    walk.button("Plan the first deployment")
    deploy(walk)
    expect(walk.page.locator("#comparison")).to_contain_text("before the takeover are unchanged")


def deploy(walk: CountedPage) -> None:
    walk.button("Deploy")
    expect(walk.page.locator(".live-state")).to_contain_text("Verified")
    expect(walk.page.locator("main")).to_contain_text("Every site responds as expected.")
    expect(walk.page.get_by_role("link", name=re.compile("^Open "))).to_be_visible()


def row(walk: CountedPage, web_server: str) -> Locator:
    return walk.page.locator("main tbody tr", has_text=web_server).first


def shows_in_time(walk: CountedPage, place: Locator, text: str) -> bool:
    """Return whether `place` shows the text once the page is loaded again. States follow within a minute or two."""

    def shows() -> bool:
        walk.page.reload()
        return text in place.inner_text()

    return eventually(shows, timeout_s=150, every_s=0.5)


def get(host: DebianHost, name: str, path: str = "/", timeout_s: float = 30.0) -> Answer:
    """The response to a client that is neither the panel nor its agent."""
    return ask(80, path, host=name, address=host.address, timeout_s=timeout_s)
