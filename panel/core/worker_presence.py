"""The presence of a worker in embedded mode, where workers answer no broadcast: its queue has no fanout exchange.

Each worker holds a shared lock of one file until its process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_held: list[int] = []


def presence_hold(folder: Path) -> None:
    """Hold the lock until this process ends."""
    opened = os.open(folder / "workers.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(opened, fcntl.LOCK_SH)
    _held.append(opened)


def is_worker_present(folder: Path) -> bool:
    """Return whether any worker holds the lock."""
    try:
        opened = os.open(folder / "workers.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(opened)
