"""Find other programs that listen on the TCP ports which a plan needs, without any change on the host."""

from __future__ import annotations

import errno
import os
import socket
from typing import Dict, Iterable, Iterator, List, Tuple

from agents.host import listening_sockets, processes

ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
MAX_PARENTS = 32


def taken(ports: Iterable[Tuple[str, int]], servers: Iterable[str]) -> List[Dict[str, str]]:
    """Return a row {"kind": "port", ...} (see prerequisites.py) for each (address, port) in `ports` on which another
    program listens.

    `servers` are the pid files of web servers. Ports on which only these servers listen get no row.
    """
    wanted = [(address or ANY[0], port) for address, port in ports]
    listening = listening_sockets.listening()
    masters = {pid for pid in map(processes.pid_in, servers) if pid}
    own = [pid for master in masters for pid in (master, *processes.children(master))]
    found = []
    for address, port in dict.fromkeys(wanted):
        inodes = {held.inode for held in listening if held.port == port and _conflicts(address, held.address)}
        if not inodes or any(processes.listens(pid, inodes) for pid in own):  # the usual case, and the cheapest check
            continue
        holders = sorted(_holders(inodes))
        if holders and not any(_is_of(pid, masters) for pid in holders) and not _can_bind(address, port):
            name = "%s:%d" % ("[%s]" % address if ":" in address else address, port)
            detail = "%s (process %d)" % (processes.program(holders[0]) or "a program", holders[0])
            found.append({"kind": "port", "name": name, "state": "taken", "detail": detail})
    return found


def _conflicts(wanted: str, held: str) -> bool:
    """Return whether a listening socket on the address `held` may prevent a bind to the address `wanted` with the same
    port.

    A socket on all IPv6 addresses also counts for IPv4 addresses, because most programs accept IPv4 connections on such
    a socket.
    """
    if held == wanted or held == "::":
        return True
    is_same_family = (":" in held) == (":" in wanted)
    return is_same_family and (held in ANY or wanted in ANY)


def _can_bind(address: str, port: int) -> bool:
    """Return whether a bind to the port succeeds; close the socket at once. This is tried because /proc does not show
    whether an IPv6 socket also accepts IPv4 connections.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        if family == socket.AF_INET6:
            stream.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            stream.bind((address, port))
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def _holders(inodes: Iterable[str]) -> Iterator[int]:
    """Yield the IDs of the processes that have any of the sockets with these inodes open."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and processes.listens(int(name), inodes))


def _is_of(pid: int, masters: set[int]) -> bool:
    for _ in range(MAX_PARENTS):
        if pid in masters:
            return True
        if pid <= 1:
            return False
        pid = processes.parent(pid)
    return False
