"""Free TCP ports on loopback."""

from __future__ import annotations

import random
import socket

# Below Linux's range for outgoing connections (32768 to 60999): a server that stops and starts again must find its
# port free, which a passing connection could have taken otherwise.
_RANGE = range(20_000, 32_000)
_handed_out: set[int] = set()


def free_port() -> int:
    """A port that nothing listens on now and that this process has not handed out before."""
    chance = random.SystemRandom()
    while True:
        port = chance.choice(_RANGE)
        if port in _handed_out:
            continue
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("127.0.0.1", port))
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
        _handed_out.add(port)
        return port
