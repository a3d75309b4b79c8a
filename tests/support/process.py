"""Real servers as child processes of the tests: started in the foreground, watched, and ended by their own id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self


class ServerProcess:
    """A program in the foreground, in a process group of its own, its output kept in a file."""

    def __init__(
        self, argv: Sequence[str], output: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.argv = list(argv)
        self.output = output
        self.env, self.cwd = {**os.environ, **(env or {})}, cwd
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self.output.open("ab") as sink:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.cwd,
                start_new_session=True,
            )
        return self

    def wait_for_port(self, port: int, *, address: str = "127.0.0.1", timeout_s: float = 60.0) -> None:
        """Returns once something accepts on `port`; AssertionError with the program's output if it ends first."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                raise AssertionError(f"{self.argv[0]} ended with {self.process.returncode}:\n{self.said()}")
            with socket.socket() as probe:
                probe.settimeout(0.5)
                if probe.connect_ex((address, port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(f"{self.argv[0]} does not listen on {port} after {timeout_s} s:\n{self.said()}")

    def said(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def stop(self, *, sig: signal.Signals = signal.SIGTERM, timeout_s: float = 10.0) -> None:
        """Ends the whole process group; killed when it does not go by itself."""
        if self.process is None or self.process.poll() is not None:
            return
        group = self.process.pid
        os.killpg(group, sig)
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(group, signal.SIGKILL)
            self.process.wait(timeout_s)
        # A child of its may hold the listening socket a moment longer: the next server on the port would meet it.
        deadline = time.monotonic() + timeout_s
        while _is_alive(group) and time.monotonic() < deadline:
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _is_alive(group: int) -> bool:
    """Whether a process of the group still runs; those that nobody waited for do not."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(pgrp) == group and state != "Z":
            return True
    return False


def tool(*names: str) -> str:
    """The path of the first of `names` that is installed; a missing tool fails the test that needs it, by name."""
    folders = [*os.environ.get("PATH", "").split(":"), "/usr/sbin", "/sbin", "/usr/local/sbin"]
    for name in names:
        for folder in folders:
            path = Path(folder) / name
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    raise AssertionError(f"{' or '.join(names)} is not installed; `make deps` installs what the tests need")
