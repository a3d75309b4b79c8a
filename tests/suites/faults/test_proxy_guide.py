"""nginx in front of the web processes, with the configuration that docs/guide/production.md prints."""

from __future__ import annotations

import io
import random
import re
import shutil
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from panel.publishing.archives import MAX_UPLOAD_BYTES, MIB
from tests.suites.faults.proxied_panel import BROWSER, DOMAIN, PASSWORD, ProxiedPanel, first_account
from tests.support.http_client import Answer
from tests.support.https_browser import HttpsBrowser

SECTIONS = ("The TLS proxy", "On two machines")
AT_ONCE_S = 10.0  # nginx would hold back a first event until the stream ends, for a quarter of an hour
PATIENCE_S = 20.0  # nginx would wait a minute for a machine that is lost
FORGED = "192.0.2.66"
FAIL_TIMEOUT_S = 10.5  # of nginx's upstreams: 10 s


@pytest.fixture(scope="module")
def panel(migrated_postgres: Path) -> Iterator[ProxiedPanel]:
    folder = Path(tempfile.mkdtemp(prefix="pd-"))
    folder.chmod(0o755)
    with ExitStack() as ended:
        ended.callback(shutil.rmtree, folder, ignore_errors=True)
        yield ProxiedPanel(folder, ended, migrated_postgres)


@pytest.fixture(scope="module")
def job(panel: ProxiedPanel) -> str:
    with panel.proxy("On two machines") as browser:
        first_account(browser, panel)
    return panel.rows()


@pytest.fixture(params=SECTIONS)
def browser(request: pytest.FixtureRequest, panel: ProxiedPanel, job: str) -> Iterator[HttpsBrowser]:
    """A signed-in browser in front of the proxy of each section."""
    with panel.proxy(request.param) as browser:
        browser.more = {"X-Forwarded-For": FORGED, "X-Forwarded-Proto": "http"}
        answer = browser.submit("/login/", {"username": "ada", "password": PASSWORD})
        assert answer.status == 302, answer.text
        yield browser


def test_sign_in_through_proxy_sets_secure_cookies_and_hsts(browser: HttpsBrowser) -> None:
    page = browser.get("/")
    assert page.status == 200 and "web-1" in browser.get("/hosts/").text
    assert page.headers["strict-transport-security"].startswith("max-age=31536000")
    assert {"paddock_session", "paddock_csrf"} <= set(browser.cookies)
    assert all(browser.cookies[name]["secure"] for name in ("paddock_session", "paddock_csrf"))
    assert browser.cookies["paddock_session"]["httponly"]
    stylesheet = re.search(r'href="(/static/[^"]+\.css)"', page.text)
    assert stylesheet and browser.get(stylesheet[1]).status == 200


def test_audit_log_names_address_of_browser_behind_proxy(browser: HttpsBrowser) -> None:
    pages = browser.get("/audit/").text + browser.get("/account/sessions/").text
    assert BROWSER in pages and FORGED not in pages


def test_events_arrive_at_once_through_proxy(browser: HttpsBrowser, panel: ProxiedPanel, job: str) -> None:
    with browser.events(f"/jobs/{job}/events/") as events:
        began = time.monotonic()
        name, arrived = next(events)
        assert name == "live" and arrived - began < AT_ONCE_S


def test_largest_upload_passes_proxy(browser: HttpsBrowser) -> None:
    taken = _uploaded(browser, _archive(MAX_UPLOAD_BYTES))
    assert taken.status == 422 and "Deploy the site first" in taken.text
    assert _uploaded(browser, _archive(MAX_UPLOAD_BYTES + 2 * MIB)).status == 413


def _uploaded(browser: HttpsBrowser, archive: bytes) -> Answer:
    """The response to an archive with content of a site, which is not deployed."""
    return browser.submit("/content/site/shop/upload", {"upload-above": "0"}, ("upload-archive", archive))


def _archive(size: int) -> bytes:
    """A zip archive of exactly this many bytes."""

    def zipped(length: int) -> bytes:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("index.html", random.Random(1).randbytes(length))
        return target.getvalue()

    return zipped(size - len(zipped(0)))


def test_requests_go_on_when_one_web_process_is_killed(panel: ProxiedPanel, job: str) -> None:
    with panel.proxy("On two machines") as browser, panel.killed(0):
        for _ in range(3):
            browser.cookies.clear()
            assert browser.submit("/login/", {"username": "ada", "password": PASSWORD}).status == 302
        assert [browser.get("/hosts/").status for _ in range(12)] == [200] * 12
        with panel.silent(0):
            time.sleep(FAIL_TIMEOUT_S)  # nginx asks the lost machine again
            assert max(_seconds(browser) for _ in range(8)) < PATIENCE_S


def _seconds(browser: HttpsBrowser) -> float:
    """How long the browser waits for a page."""
    began = time.monotonic()
    assert browser.get("/hosts/").status == 200
    return time.monotonic() - began


def test_host_of_proxied_request_is_checked(browser: HttpsBrowser) -> None:
    assert browser.get("/login/", {"Host": "other.example"}).status == 400
    assert browser.get("/login/", {"Host": DOMAIN}).status == 302
