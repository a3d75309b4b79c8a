"""Debian's Chromium switches to HTTP/3 after Alt-Svc."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.suites.http3.client import NAME
from tests.suites.http3.conftest import Site
from tests.support.browser import ARGUMENTS, chromium
from tests.support.process import tool
from tests.support.waiting import eventually

PROTOCOL = "performance.getEntriesByType('navigation')[0].nextHopProtocol"


def key_hash(certificate: Path) -> str:
    """What Chromium is to trust: QUIC takes no certificate that merely a click would let pass."""
    openssl = tool("openssl")
    pem = subprocess.run(
        [openssl, "x509", "-in", str(certificate), "-pubkey", "-noout"], capture_output=True, check=True
    )
    der = subprocess.run(
        [openssl, "pkey", "-pubin", "-outform", "der"], input=pem.stdout, capture_output=True, check=True
    )
    return base64.b64encode(hashlib.sha256(der.stdout).digest()).decode()


@pytest.fixture
def browser(site: Site, tmp_path: Path) -> Iterator[BrowserContext]:
    arguments = [*ARGUMENTS, f"--ignore-certificate-errors-spki-list={key_hash(site.certificate)}"]
    # An authority of one's own will do for names that are known to have QUIC, be it on a port that nobody asks.
    arguments += [f"--origin-to-force-quic-on={NAME}:1"]
    arguments += [f"--host-resolver-rules=MAP {NAME} 127.0.0.1", "--enable-quic", "--no-proxy-server"]
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=chromium(), args=arguments
        )
        yield context
        context.close()


def protocol_of(page: Page, site: Site, number: int) -> str:
    """Each page is a new one: of what is in the browser's cache the protocol is the one it once came by."""
    page.goto(f"https://{NAME}:{site.port}/page.html?{number}", timeout=60_000)
    assert page.inner_text("p") == "shown"
    return str(page.evaluate(PROTOCOL))


def test_chromium_switches_to_http3_after_alt_svc(site: Site, browser: BrowserContext) -> None:
    page, numbers = browser.new_page(), count()
    assert protocol_of(page, site, next(numbers)) in ("http/1.1", "h2")
    # It goes over when its QUIC connection stands; until then pages come over the one it has.
    assert eventually(lambda: protocol_of(page, site, next(numbers)) == "h3", every_s=0.2)
    fetched = "fetch('/large.bin').then(r => r.arrayBuffer()).then(b => b.byteLength)"
    assert page.evaluate(fetched) == 3_072_000
    sent = "fetch('/app', {method: 'POST', body: 'a'.repeat(300000)}).then(r => r.text())"
    assert page.evaluate(sent).startswith("POST 300000 ")
    log = site.instance.root / "log" / "access.log"
    assert eventually(lambda: '"POST /app HTTP/3.0" 200' in log.read_text())
    assert '"GET /large.bin HTTP/3.0" 200' in log.read_text()
