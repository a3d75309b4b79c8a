"""Operation `ports`: find free TCP ports for temporary servers."""

from __future__ import annotations

import random
import socket
import threading
from typing import Any

from agents.host.errors import Refusal
from agents.host.operations import Emit

# Below Linux's range of ephemeral ports (32768 to 60999), so that no connection takes a port in the meantime.
LOW, HIGH = 20000, 32000
MOST = 64


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Find free ports: {"count"} -> {"ports": [numbers]}. At present, neither TCP nor UDP (HTTP/3) uses them on any
    address.
    """
    count = args.get("count")
    if not isinstance(count, int) or not 0 < count <= MOST:
        raise Refusal("invalid", "count is a number from 1 to %d" % MOST)
    found: list[int] = []
    chance = random.SystemRandom()
    for port in chance.sample(range(LOW, HIGH), HIGH - LOW):
        if len(found) == count:
            break
        if _is_free(port):
            found.append(port)
    if len(found) < count:
        raise Refusal("failed", "fewer than %d ports are free between %d and %d" % (count, LOW, HIGH))
    return {"ports": found}


def _is_free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        # as servers do: closing connections do not block a port
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tcp.bind(("", port))
            udp.bind(("", port))
        except OSError:
            return False
    return True
