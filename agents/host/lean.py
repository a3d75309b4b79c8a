"""Threads, signals and sockets without the further imports of `threading`, `signal` and `socket`.

Those three load `enum`, `functools` and `collections`, which costs more than the transaction itself on a new
connection. They are based on the modules used here, which exist in every CPython from 3.8 on; other Pythons get the
public modules.
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
    """The part of threading.Event that the agent needs."""

    def __init__(self) -> None:
        self._is_set = False
        self._gate = _thread.allocate_lock()  # locked until the event is set
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
        """Wait at most `timeout` seconds; return whether the event is set."""
        if not self._is_set and self._gate.acquire(True, -1 if timeout is None else max(0.0, timeout)):
            self._gate.release()
        return self._is_set


def start(work: Callable[..., None], *args: Any) -> Event:
    """Run `work` in a daemon thread; the returned event is set at its end."""
    run, ended = _told(work, *args)
    _thread.start_new_thread(run, ())
    return ended


def _told(work: Callable[..., None], *args: Any) -> tuple[Callable[[], None], Event]:
    """A function that runs `work`, and the event that it sets at the end in every case."""
    ended = Event()

    def run() -> None:
        try:
            work(*args)
        finally:
            ended.set()

    return run, ended


class _Lent:
    """A reusable thread with its next function. Waking a thread costs a third of starting one, whose stack and heap the
    kernel must create and free.
    """

    idle: list[_Lent] = []
    MOST_IDLE = 4

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        self._gate = _thread.allocate_lock()  # locked while idle
        self._gate.acquire()

    def give(self, work: Callable[[], None]) -> None:
        self._work = work
        self._gate.release()

    def serve(self) -> None:
        while True:
            work, self._work = self._work, None
            assert work is not None
            work()
            del work  # releases the objects that it refers to
            if len(self.idle) >= self.MOST_IDLE:
                return
            self.idle.append(self)
            self._gate.acquire()


def lend(work: Callable[..., None], *args: Any) -> Event:
    """Like `start`, in a reused thread, for functions that leave the thread unchanged. A thread that enters a namespace
    must not be reused.
    """
    run, ended = _told(work, *args)
    try:
        _Lent.idle.pop().give(run)
    except IndexError:
        _thread.start_new_thread(_Lent(run).serve, ())
    return ended


def number(name: str) -> int:
    """Number of the signal `name`, such as HUP, on this host."""
    return int(getattr(signals, "SIG" + name))


def connected(address: str, port: int, timeout_s: float) -> sockets.socket:
    """A TCP connection, to be closed by the caller. OSError."""
    error = OSError("%s leads nowhere" % address)
    host = address.encode("ascii") if address.isascii() else address  # a str would load the IDNA codec
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
