"""The tests' browser while other tests create hosts with network interfaces."""

from __future__ import annotations

import os
from typing import Any

from playwright.sync_api import Browser

from tests.support.namespace_hosts import ip

# Opens a connection at a time and counts the requests that fail.
REQUESTS = """
window.failures = 0;
window.responses = 0;
setInterval(() => fetch('/healthz?' + Math.random()).then(() => window.responses++, () => window.failures++), 1);
"""


def test_requests_survive_network_interfaces_that_come_and_go(browser: Browser, live_server: Any) -> None:
    name = f"pdc{os.getpid() % 100000}"
    page = browser.new_page()
    page.goto(f"{live_server.url}/healthz")
    page.evaluate(REQUESTS)
    for number in range(20):
        ip("link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b")
        ip("address", "add", f"10.98.{os.getpid() % 256}.{number + 1}/32", "dev", f"{name}a")
        ip("link", "set", f"{name}a", "up")
        ip("link", "set", f"{name}b", "up")
        page.wait_for_timeout(50)
        ip("link", "delete", f"{name}a")
        page.wait_for_timeout(50)
    responses, failures = page.evaluate("[window.responses, window.failures]")
    page.close()
    assert responses > 20
    assert failures == 0
