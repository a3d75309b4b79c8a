"""Free TCP ports on loopback."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port that nothing listens on now. Asked of the kernel, which does not soon give the same one twice."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
