"""Programs that listen on TCP ports which a plan needs, from /proc; reads only."""

from __future__ import annotations

import errno
import os
import socket
import sys
from typing import Dict, Iterable, Iterator, List, Tuple

from agents.host import processes

ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
MAX_PARENTS = 32

Listener = Tuple[str, str]  # address, inode of the socket


def taken(ports: Iterable[Tuple[str, int]], servers: Iterable[str]) -> List[Dict[str, str]]:
    """Answers of kind "port" (prerequisites.py) for the (address, port) that another program than the servers' (pid
    files) holds.
    """
    wanted = [(address or ANY[0], port) for address, port in ports]
    listening = _listening({port for _, port in wanted})
    masters = {pid for pid in map(processes.pid_in, servers) if pid}
    own = [pid for master in masters for pid in (master, *processes.children(master))]
    found = []
    for address, port in dict.fromkeys(wanted):
        inodes = {inode for held, inode in listening.get(port, ()) if _conflicts(address, held)}
        if not inodes or any(processes.listens(pid, inodes) for pid in own):  # most often, and quickly found
            continue
        holders = sorted(_holders(inodes))
        if holders and not any(_is_of(pid, masters) for pid in holders) and not _can_bind(address, port):
            name = "%s:%d" % ("[%s]" % address if ":" in address else address, port)
            detail = "%s (process %d)" % (processes.program(holders[0]) or "a program", holders[0])
            found.append({"kind": "port", "name": name, "state": "taken", "detail": detail})
    return found


def _listening(ports: set[int]) -> Dict[int, List[Listener]]:
    """Listening sockets of these ports (proc_net_tcp: state 0A)."""
    found: Dict[int, List[Listener]] = {}
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in processes.read("/proc/net/" + name).splitlines()[1:]:
            # A proxy has very many connections, which are not worth taking apart.
            fields = line.decode("ascii", "replace").split() if b" 0A " in line else []
            if len(fields) < 10 or fields[3] != "0A":
                continue
            digits, _, port = fields[1].partition(":")
            if int(port, 16) in ports:
                found.setdefault(int(port, 16), []).append((_address(digits, family), fields[9]))
    return found


def _address(digits: str, family: int) -> str:
    """An address as /proc writes it: 32-bit words, each in the byte order of the machine."""
    words = bytes.fromhex(digits)
    packed = b"".join(_word(words[at : at + 4]) for at in range(0, len(words), 4))
    return str(socket.inet_ntop(family, packed))


def _word(four: bytes) -> bytes:
    return four[::-1] if sys.byteorder == "little" else four


def _conflicts(wanted: str, held: str) -> bool:
    """Return whether a socket on `held` may keep `wanted` from being bound. One on all IPv6 addresses counts for IPv4
    too: most programs leave it open for both.
    """
    if held == wanted or held == "::":
        return True
    is_same_family = (":" in held) == (":" in wanted)
    return is_same_family and (held in ANY or wanted in ANY)


def _can_bind(address: str, port: int) -> bool:
    """Try to bind, without listening: /proc does not tell whether an IPv6 socket is open for IPv4 too."""
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
    """Processes that have one of these sockets open."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit() and processes.listens(int(name), inodes))


def _is_of(pid: int, masters: set[int]) -> bool:
    for _ in range(MAX_PARENTS):
        if pid in masters:
            return True
        if pid <= 1:
            return False
        pid = processes.parent(pid)
    return False
