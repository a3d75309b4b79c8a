"""Read the IP addresses of this host's network interfaces from /proc (proc(5)), without starting a program."""

from __future__ import annotations

import re
import socket
from typing import List

from agents.host import processes

_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s*/32 host LOCAL")


def own() -> List[str]:
    """Return the host's IPv4, then its IPv6 addresses, unique, in their usual notation, including loopback."""
    text = processes.read("/proc/net/fib_trie").decode("ascii", "replace")
    found = dict.fromkeys(_LOCAL.findall(text))
    for line in processes.read("/proc/net/if_inet6").decode("ascii", "replace").splitlines():
        digits = line.split(" ", 1)[0]
        if len(digits) == 32:
            found[socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))] = None
    return list(found)
