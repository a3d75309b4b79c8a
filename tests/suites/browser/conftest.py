"""A whole panel, started as `make run` starts it, and Debian's Chromium to look at it with."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect, sync_playwright

from tests.support.asgi_server import LiveServer
from tests.support.browser import ARGUMENTS, chromium
from tests.support.gallop import gallop_binary
from tests.support.ports import free_port
from tests.support.process import ServerProcess
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
ARTIFACTS = ROOT / "tests" / "artifacts"
# A busy machine needs longer than Playwright's five seconds to draw a page; what never comes still fails.
expect.set_options(timeout=60_000)


@dataclass
class Panel:
    """A running panel: its address and its data folder."""

    url: str
    home: Path
    process: ServerProcess

    @property
    def setup_url(self) -> str:
        return self.url + (self.home / "secrets" / "setup_link").read_text().strip()


@pytest.fixture(scope="module")
def panel() -> Iterator[Panel]:
    with running_panel() as panel:
        yield panel


@contextmanager
def running_panel(**settings: str) -> Iterator[Panel]:
    """`manage.py run` on an empty data folder. Ends as Ctrl-C ends it, and must leave nothing running. `settings` are
    environment variables.
    """
    home = Path(tempfile.mkdtemp(prefix="pdb-"))
    home.chmod(0o755)
    port = free_port()
    env = {"PADDOCK_HOME": str(home / "home"), "PADDOCK_STATIC_MANIFEST": "1", "PADDOCK_GALLOP": gallop_binary()}
    env["PADDOCK_LOCAL_HOST_FOLDER"] = str(home / "home" / "host")
    env |= {"PADDOCK_DATABASE_URL": "", "PADDOCK_REDIS_URL": "", "PADDOCK_AGENT_STATE": str(home / "agent")}
    env |= settings
    process = ServerProcess(
        [sys.executable, str(ROOT / "manage.py"), "run", "--port", str(port)],
        home / "output",
        env={name: value for name, value in env.items() if value},
    )
    for name in ("PADDOCK_DATABASE_URL", "PADDOCK_REDIS_URL"):
        process.env.pop(name, None)
    process.start()
    try:
        assert eventually(lambda: "==> ready" in process.said(), timeout_s=90), process.said()
        yield Panel(f"http://127.0.0.1:{port}", home / "home", process)
    finally:
        process.stop(sig=signal.SIGINT, timeout_s=30)
        ARTIFACTS.mkdir(exist_ok=True)
        shutil.copy(process.output, ARTIFACTS / "panel.log")
        assert "==> stopped" in process.said(), process.said()
        assert eventually(lambda: not running_below(home / "home")), running_below(home / "home")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Playwright's event loop goes on in the thread of the tests. So it ends with those of this package: Django's test
    client calls no async view where a loop runs, and lets the database be asked there only when told to."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="package")
def live_server() -> Iterator[LiveServer]:
    with LiveServer() as server:
        yield server


class Eyes:
    """A page that keeps screenshots, and what the browser complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.complaints: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self._number = 0

    def _on_console(self, message: ConsoleMessage) -> None:
        # A refused form answers 422 or 409 on purpose; the browser logs every such answer.
        if message.type == "error" and not re.search(r"status of 4(09|22)", message.text):
            self.complaints.append(message.text)

    def visit(self, url: str) -> None:
        """Goes there, even when the page before reloads itself at that moment, as live pages do at their end. Either of
        the two may win, and the loser is said to be aborted, interrupted, or never to load. The winner may still be
        loading then, and would interrupt the next attempt as well; so that waits for it."""
        for _ in range(3):
            try:
                self.page.goto(url, timeout=20_000)
                return
            except Error as error:
                if not re.search("ERR_ABORTED|interrupted|Timeout", error.message):
                    raise
                self.page.wait_for_load_state()
        self.page.goto(url)

    def shot(self, name: str) -> None:
        """Keeps a picture of the whole page in tests/artifacts."""
        ARTIFACTS.mkdir(exist_ok=True)
        self._number += 1
        self.page.screenshot(path=str(ARTIFACTS / f"{self._number:02}-{name}.png"), full_page=True)


@pytest.fixture(scope="module")
def eyes(browser: Browser) -> Iterator[Eyes]:
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-GB")
    eyes = Eyes(context)
    yield eyes
    context.close()


def running_below(home: Path) -> list[str]:
    """Command lines of processes whose environment names this data folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if f"PADDOCK_HOME={home}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found
