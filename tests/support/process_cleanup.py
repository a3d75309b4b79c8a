"""Ending a benchmark or the checks early: what they started ends with them, by Ctrl-C or a signal from elsewhere."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
GRACE_S = 10.0


@contextmanager
def ended_with(folder: Path) -> Iterator[None]:
    """Signals that would end this process at once leave by SystemExit instead, so that every `finally` is gone
    through; a second one changes nothing. Whatever still names `folder` afterwards is ended."""
    heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup(1) has it ignored
    before = {number: signal.signal(number, _leave) for number in heeded}
    try:
        yield
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        end_left(folder)
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def end_left(folder: Path) -> None:
    """Ends the processes that name `folder`, which only what was started for it does: politely, then not."""
    left = naming(folder)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, sign)
        deadline = time.monotonic() + GRACE_S
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = naming(folder)


def naming(folder: Path) -> list[int]:
    """The processes, besides this one, in whose command line or first environment the path `folder` stands."""
    name = str(folder).encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            said = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
        except OSError:  # it has ended, or is another account's
            continue
        if name in said and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found
