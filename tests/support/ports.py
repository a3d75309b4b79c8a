"""Free TCP ports on loopback."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

# Below Linux's range for outgoing connections (32768 to 60999): a server that stops and starts again must find its
# port free, which a passing connection could have taken otherwise.
_RANGE = range(20_000, 32_000)
_CLAIMS = Path(tempfile.gettempdir()) / f"paddock-test-ports-{os.getuid()}.lock"
_given: set[int] = set()  # by this process, which holds their locks for as long as it lives


def free_port() -> int:
    """A port that nothing listens on now and that no test process of this account has been given before."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_RANGE)
        if port not in _given and _is_free(port) and _claim(port):
            _given.add(port)
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        try:
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@cache
def _claims() -> int:
    """File descriptor of the file whose bytes are locked, one for each port: the process must never close it."""
    return os.open(_CLAIMS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _claim(port: int) -> bool:
    """The lock goes with the process, so that nothing has to be cleared away after a crash."""
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):  # another process has it
        return False
    return True
