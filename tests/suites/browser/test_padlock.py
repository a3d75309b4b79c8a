"""From an empty panel to the padlock: a site with a domain gets a certificate of a real authority, and a browser that
trusts this authority's root alone opens it, over HTTP/2 and HTTP/3.

Each step is a test and continues where the step before ended.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserType, Error, expect

from tests.suites.browser.conftest import Eyes, Panel
from tests.suites.browser.test_main_journey import PASSWORD, Machine, control
from tests.suites.browser.test_main_journey import machine as machine
from tests.support.browser import ARGUMENTS, chromium
from tests.support.pebble import Pebble
from tests.support.ports import free_port
from tests.support.process import tool
from tests.support.waiting import eventually

DOMAIN = "shop.example"


@pytest.fixture(scope="module")
def authority(machine: Machine) -> Iterator[Pebble]:
    """Reaches the site's port for plain HTTP where other authorities reach port 80."""
    with_port = Pebble(machine.root, machine.ports["gallop"]).start()
    yield with_port
    with_port.stop()


@pytest.fixture(scope="module")
def https_port() -> int:
    return free_port()


def visitor(kind: BrowserType, root_pem: str, *arguments: str) -> Browser:
    """A browser of a user whose only certificate authority is this root; "" for none."""
    home = Path(tempfile.mkdtemp(prefix="pdv-"))
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    certutil = [tool("certutil"), "-d", f"sql:{database}"]
    subprocess.run([*certutil, "-N", "--empty-password"], check=True, stdin=subprocess.DEVNULL)
    if root_pem:
        (home / "root.pem").write_text(root_pem)
        argv = [*certutil, "-A", "-t", "C,,", "-n", "root", "-i", str(home / "root.pem")]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
    more = [f"--host-resolver-rules=MAP {DOMAIN} 127.0.0.1", *arguments]
    return kind.launch(executable_path=chromium(), args=[*ARGUMENTS, *more], env={**os.environ, "HOME": str(home)})


def test_step_1_panel_is_set_up_with_a_host_and_gallop(panel: Panel, eyes: Eyes, machine: Machine) -> None:
    page = eyes.page
    eyes.visit(panel.setup_url)
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    eyes.visit(f"{panel.url}/hosts/+new/")
    values = {"name": "web1", "address": "127.0.0.1", "port": str(machine.sshd.port)}
    values |= {"username": machine.sshd.username, "private_key": machine.sshd.private_key}
    for name, value in (values | {"site_roots": str(machine.www)}).items():
        control(page, name).fill(value)
    page.locator("main form button.primary").click()
    page.get_by_role("button", name="The fingerprints match: trust this key").click()
    page.get_by_role("button", name="Install gallop").click()
    offered = page.locator("select[name=web_server] option", has_text="gallop on web1")

    def is_offered() -> bool:
        eyes.visit(f"{panel.url}/sites/+new/")
        return offered.count() == 1

    assert eventually(is_offered, timeout_s=90)


def test_step_2_site_is_drafted_and_an_account_is_added(
    panel: Panel, eyes: Eyes, machine: Machine, authority: Pebble
) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/sites/+new/")
    control(page, "name").fill("shop")
    control(page, "domains").fill(DOMAIN)
    control(page, "web_server").select_option(label="gallop on web1")
    control(page, "root").fill(str(machine.www / "shop"))
    control(page, "port").fill(str(machine.ports["gallop"]))
    page.get_by_role("button", name="Create the draft").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop")
    eyes.visit(f"{panel.url}/certificates/accounts/add")
    control(page, "name").fill("own-authority")
    control(page, "issuer").select_option("other")
    control(page, "directory_url").fill(authority.directory)
    control(page, "ca_pem").fill(authority.ca_pem)
    page.locator("main form button.primary").click()
    expect(page.get_by_role("cell", name="own-authority", exact=True)).to_be_visible()


def test_step_3_one_switch_brings_certificate_redirect_and_https(panel: Panel, eyes: Eyes, https_port: int) -> None:
    page = eyes.page
    eyes.visit(f"{panel.url}/sites/shop/tls/")
    page.get_by_role("link", name="Automatic HTTPS").first.click()
    control(page, "https_port").fill(str(https_port))
    page.get_by_role("button", name="Turn automatic HTTPS on").click()
    expect(page.locator("#certificate-live")).to_contain_text("In use", timeout=120_000)
    expect(page.locator("#certificate-live")).to_contain_text(
        "Every listener that Paddock checked presents the certificate and its chain."
    )
    eyes.shot("padlock")


def test_step_4_browser_that_trusts_the_root_shows_the_padlock(
    browser: Browser, authority: Pebble, machine: Machine, https_port: int
) -> None:
    with_root = visitor(browser.browser_type, authority.root_pem())
    page = with_root.new_page()
    response = page.goto(f"http://{DOMAIN}:{machine.ports['gallop']}/")
    assert response is not None and page.url == f"https://{DOMAIN}:{https_port}/"
    assert page.inner_text("h1") == "The shop" and page.evaluate("isSecureContext")
    details = response.security_details()
    assert details is not None and details["issuer"].startswith("Pebble")
    assert page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol") == "h2"
    with_root.close()
    without = visitor(browser.browser_type, "")
    with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
        without.new_page().goto(f"https://{DOMAIN}:{https_port}/")
    without.close()


def test_step_5_browser_uses_http3(browser: Browser, authority: Pebble, https_port: int) -> None:
    # Chromium accepts roots that users added over QUIC only for origins that are named like this.
    forced = f"--origin-to-force-quic-on={DOMAIN}:{https_port}"
    with_root = visitor(browser.browser_type, authority.root_pem(), "--enable-quic", forced)
    page = with_root.new_page()
    page.goto(f"https://{DOMAIN}:{https_port}/")
    assert page.inner_text("h1") == "The shop"
    protocol = "performance.getEntriesByType('navigation')[0].nextHopProtocol"
    assert eventually(lambda: page.evaluate(protocol) == "h3"), page.evaluate(protocol)
    with_root.close()


def test_step_6_nothing_was_complained_about(eyes: Eyes) -> None:
    assert eyes.complaints == []
