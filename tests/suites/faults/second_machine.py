"""A second machine of a panel, which shares the database and Redis with the first."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.support.ports import free_port
from tests.support.process import ServerProcess, tool
from tests.support.whole_panel import ROOT, WholePanel


class SecondMachine:
    """The processes of the same panel in a PID namespace of their own, so that neither machine sees the other's."""

    def __init__(self, first: WholePanel, folder: Path) -> None:
        folder.mkdir()
        self.port = free_port()
        apart = [tool("unshare"), "--pid", "--fork", "--mount-proc", "--kill-child"]
        argv = [*apart, sys.executable, str(ROOT / "manage.py"), "run", "--port", str(self.port)]
        env = first.env | {"PADDOCK_HOME": str(folder / "home")}
        self.process = ServerProcess(argv, folder / "panel.log", env=env)

    def start(self) -> None:
        self.process.start()
        self.process.wait_for_port(self.port, timeout_s=120)

    def lose(self) -> None:
        """End every process at once, as if the power failed."""
        assert self.process.process
        os.killpg(self.process.process.pid, signal.SIGKILL)
        self.process.process.wait(10)
