"""The browser of the tests: Debian's Chromium, rather the one without the window that nobody would look at,
which takes a third less time."""

from __future__ import annotations

from pathlib import Path

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def chromium() -> str:
    """The path of the program that starts it."""
    return str(Path(__file__).with_name("chromium_without_netlink.py"))
