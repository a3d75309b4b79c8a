"""The browser of the tests: Debian's Chromium, rather the one without the window that nobody would look at,
which takes a third less time."""

from __future__ import annotations

from tests.support.process import tool

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def chromium() -> str:
    """The path of its program."""
    return tool("chromium-headless-shell", "chromium")
