"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(check: Callable[[], bool], *, timeout_s: float = 10.0, every_s: float = 0.05) -> bool:
    """Whether `check` comes true in time; connection errors count as not yet."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        try:
            if check():
                return True
        except OSError:
            pass
        time.sleep(every_s)
    return False
