"""Waiting for what another process does."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from agents.host.engines import engine_for
from agents.host.engines.base import Engine
from agents.protocol import EngineControl, plain

Source = TypeVar("Source", bound=socket.socket | int)


def eventually(check: Callable[[], bool], *, timeout_s: float = 60.0, every_s: float = 0.05) -> bool:
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


def is_readable(source: socket.socket | int, timeout_s: float = 0.0) -> bool:
    """Return whether a socket or pipe has data or was closed, after at most `timeout_s` seconds."""
    return bool(readable([source], timeout_s))


def readable(sources: Sequence[Source], timeout_s: float) -> list[Source]:
    """Return the sockets and pipes that have data or were closed, once there is one or `timeout_s` seconds have passed.

    Unlike select(), poll() takes file descriptors above 1023.
    """
    with selectors.PollSelector() as waiting:
        for source in sources:
            waiting.register(source, selectors.EVENT_READ, source)
        return [key.data for key, _events in waiting.select(timeout_s)]


def end_and_wait(pid: int, *, timeout_s: float = 60.0) -> None:
    """Ends a daemon by its process id, by signal: with a broken configuration `nginx -s stop` only complains."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    assert eventually(lambda: _is_gone(pid), timeout_s=timeout_s, every_s=0.01), f"process {pid} does not end"


def wait_until_running(engine: str, paths: dict[str, str]) -> None:
    """Returns once a daemon has its pid file and its workers: its parent ends with success before that."""
    server = _server(engine, paths)
    assert eventually(lambda: bool(server.pid()) and server.has_workers()), f"{engine} does not run"


def is_running(engine: str, paths: dict[str, str]) -> bool:
    """Whether the process that its pid file names is this server."""
    return bool(_server(engine, paths).pid())


def reload_and_wait(engine: str, paths: dict[str, str]) -> None:
    """Tells a server to read its configuration again and returns once only the new one answers.

    A server answers `-s reload` and `-k graceful` before it has done anything.
    """
    server = _server(engine, paths)
    before, _ = server.reload(server.pid())
    server.wait_live(before)


def _server(engine: str, paths: dict[str, str]) -> Engine:
    control = EngineControl(engine=engine, **{name: value for name, value in paths.items() if name != "log_dir"})
    return engine_for(plain(control))


def _is_gone(pid: int) -> bool:
    """A zombie is gone: it holds no port and no file."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
