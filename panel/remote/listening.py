"""Single thread that reads the messages of all agents. It sleeps until a connection has data.

One thread per agent would need memory for each stack, and the system would switch threads for every message.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

Read = Callable[[], bool]  # reads available data without blocking; False at the end


class Listener:
    """Thread that waits for data on file descriptors, and calls the read function of each descriptor that has data.
    Thread-safe.
    """

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._poll = select.epoll()
        self._reads: dict[int, Read] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="agents", daemon=True).start()

    def add(self, descriptor: int, read: Read) -> None:
        """Call `read` whenever the descriptor has data, until `read` returns False. The descriptor must stay open until
        then.
        """
        with self._lock:
            self._reads[descriptor] = read
            self._poll.register(descriptor, select.EPOLLIN)

    def _run(self) -> None:
        while True:
            for descriptor, _event in self._poll.poll():
                read = self._reads[descriptor]
                try:
                    goes_on = read()
                except Exception:
                    logger.exception("what an agent said could not be read")
                    goes_on = False
                if not goes_on:
                    self._remove(descriptor)

    def _remove(self, descriptor: int) -> None:
        with self._lock:
            self._poll.unregister(descriptor)
            del self._reads[descriptor]


_lock = threading.Lock()
_made: Listener | None = None


def listener() -> Listener:
    """Return the Listener of this process; it is created on first use, and again in a forked child."""
    global _made
    with _lock:
        if _made is None or _made.owner != os.getpid():
            _made = Listener()
        return _made
