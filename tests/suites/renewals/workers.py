"""A second worker beside those of `manage.py run`, the memory of all of them, and their random ends."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.process import ServerProcess
from tests.support.whole_panel import ROOT, WholePanel

ARGUMENTS = ("-m", "celery", "-A", "panel", "--quiet", "worker", "--without-gossip", "--without-mingle")


class SecondWorker:
    """A worker process of the same panel, which is started again after each end."""

    def __init__(self, panel: WholePanel, folder: Path) -> None:
        argv = [sys.executable, *ARGUMENTS, "--loglevel", "WARNING"]
        self.process = ServerProcess(argv, folder / "worker.log", env=panel.env | {"PYTHONPATH": str(ROOT)})

    @property
    def pid(self) -> int:
        return self.process.process.pid if self.process.process else 0

    def kill_and_start(self) -> None:
        self.process.stop(sig=signal.SIGKILL)
        self.process.start()


class Memory:
    """`most` is the highest sum of the proportional sizes of the panel's processes, in bytes, read every second."""

    def __init__(self, panel: WholePanel, second: SecondWorker) -> None:
        self.most = 0
        self._panel, self._second = panel, second
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(1.0):
            self.most = max(self.most, sum(_bytes(pid) for pid in [*self._panel.pids(), self._second.pid]))


def _bytes(pid: int) -> int:
    """Proportional set size; 0 for a process that ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


class Kills:
    """Ends a random process of the panel every few seconds; `count` says how many."""

    def __init__(self, panel: WholePanel, second: SecondWorker, seed: int) -> None:
        self.count = 0
        self._panel, self._second, self._chance = panel, second, random.Random(seed)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Kills:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._chance.uniform(1.0, 6.0)):
            pids = [*self._panel.pids(), self._second.pid]
            victim = self._chance.choice(pids)
            self.count += 1
            if victim == self._second.pid:
                self._second.kill_and_start()
            else:
                os.kill(victim, signal.SIGKILL)


@contextmanager
def running(panel: WholePanel, folder: Path) -> Iterator[SecondWorker]:
    second = SecondWorker(panel, folder)
    panel.start()
    try:
        second.process.start()
        yield second
    finally:
        second.process.stop()
        panel.stop()
