"""Detection of running workers in embedded mode, in which workers do not respond to Celery's broadcasts.

Each worker holds a shared lock of one file until its process ends, for whatever reason.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_held: list[int] = []


def presence_hold(folder: Path) -> None:
    """Hold a shared lock of the file `workers.lock` in the folder until this process ends."""
    opened = os.open(folder / "workers.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(opened, fcntl.LOCK_SH)
    _held.append(opened)


def is_worker_present(folder: Path) -> bool:
    """Return whether any worker holds a lock of the file `workers.lock` in the folder."""
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
