"""Free TCP ports on loopback."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

# Below Linux's range for outgoing connections (32768 to 60999): a server that stops and starts again must find its
# port free, which a passing connection could have taken otherwise.
_RANGE = range(20_000, 32_000)
_CLAIMS = Path(tempfile.gettempdir()) / f"paddock-test-ports-{os.getuid()}"
_held: list[int] = []  # open for as long as the process lives: another test process must not take what we hand out


def free_port() -> int:
    """A port that nothing listens on now and that no test process of this account has been given before."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_RANGE)
        if _is_free(port) and _claim(port):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        try:
            tcp.bind(("127.0.0.1", port))
            udp.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _claim(port: int) -> bool:
    """The lock goes with the process, so that nothing has to be cleared away after a crash."""
    _CLAIMS.mkdir(mode=0o700, exist_ok=True)
    claim = os.open(_CLAIMS / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(claim)
        return False
    _held.append(claim)
    return True
