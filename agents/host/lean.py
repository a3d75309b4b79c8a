"""Threads, signals and sockets without what `threading`, `signal` and `socket` import besides.

Those three load `enum`, `functools` and `collections` before the agent has done anything, which on a cold connection
costs more than the transaction itself. They are built on the modules used here, which every CPython from 3.8 on has;
another Python gets the public ones.
"""

from __future__ import annotations

import _thread

try:
    import _signal as signals  # type: ignore[import-not-found]
    import _socket as sockets
except ImportError:
    import signal as signals
    import socket as sockets  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

__all__ = ["Event", "Lock", "connected", "lend", "number", "signals", "sockets", "start"]

Lock = _thread.allocate_lock


class Event:
    """What threading.Event is, as far as the agent needs one."""

    def __init__(self) -> None:
        self._is_set = False
        self._gate = _thread.allocate_lock()  # held until it is set
        self._gate.acquire()
        self._setting = _thread.allocate_lock()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._setting:
            if not self._is_set:
                self._is_set = True
                self._gate.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it was set, at the latest after `timeout` seconds."""
        if not self._is_set and self._gate.acquire(True, -1 if timeout is None else max(0.0, timeout)):
            self._gate.release()
        return self._is_set


def start(work: Callable[..., None], *args: Any) -> Event:
    """Runs `work` in a thread that keeps no process alive; the event says that it has ended."""
    run, ended = _told(work, *args)
    _thread.start_new_thread(run, ())
    return ended


def _told(work: Callable[..., None], *args: Any) -> tuple[Callable[[], None], Event]:
    """What does `work`, and the event that it sets at the end, however that comes."""
    ended = Event()

    def run() -> None:
        try:
            work(*args)
        finally:
            ended.set()

    return run, ended


class _Lent:
    """A thread that does one thing after the other, and what it is to do next. To wake one costs a third of what a
    new one does, whose stack and heap the kernel has to make and to take away again."""

    idle: list[_Lent] = []
    MOST_IDLE = 4

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._gate = _thread.allocate_lock()  # held while there is nothing to do
        self._gate.acquire()

    def give(self, work: Callable[[], None]) -> None:
        self._work = work
        self._gate.release()

    def serve(self) -> None:
        while True:
            work, self._work = self._work, None
            assert work is not None
            work()
            del work  # and all that it holds
            if len(self.idle) >= self.MOST_IDLE:
                return
            self.idle.append(self)
            self._gate.acquire()


def lend(work: Callable[..., None], *args: Any) -> Event:
    """What `start` does, in a thread that may have done other work and will do other: for what leaves a thread as it
    found it. Who enters a namespace needs one that ends with it."""
    run, ended = _told(work, *args)
    try:
        _Lent.idle.pop().give(run)
    except IndexError:
        _thread.start_new_thread(_Lent(run).serve, ())
    return ended


def number(name: str) -> int:
    """The number of the signal `name`, such as HUP, on this machine."""
    return int(getattr(signals, "SIG" + name))


def connected(address: str, port: int, timeout_s: float) -> sockets.socket:
    """A TCP connection, to be closed by the caller. OSError."""
    error = OSError("%s leads nowhere" % address)
    host = address.encode("ascii") if address.isascii() else address  # as text it would load the codec for IDNA
    for family, kind, protocol, _name, place in sockets.getaddrinfo(host, port, 0, sockets.SOCK_STREAM):
        made = sockets.socket(family, kind, protocol)
        try:
            made.settimeout(timeout_s)
            made.connect(place)
            return made
        except OSError as failed:
            made.close()
            error = failed
    raise error
