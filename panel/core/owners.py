"""Names of processes that tell other processes whether the owner of a row still runs.

A killed worker sends no message. If its name shows that it ran on this machine and no such process exists, nobody has
to wait until its heartbeat expires.
"""

from __future__ import annotations

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

_STARTED = 19  # field 22 of /proc/PID/stat (proc(5)), counted from the field after the command's name


def owner_name() -> str:
    """Return the name of this process: "HOST:PID:START:PLACE".

    START is its start time in clock ticks since boot, because PIDs are reused. PLACE identifies this boot of this
    machine and its PID namespace.
    """
    pid = os.getpid()
    return f"{socket.gethostname()[:40]}:{pid}:{_started(pid)}:{_place()}"


def is_here(name: str) -> bool:
    """Return whether the named process runs on this machine, or ran on it since the machine's last boot."""
    parts = name.split(":")
    return len(parts) >= 4 and bool(parts[3]) and parts[3] == _place()


def is_gone(name: str) -> bool:
    """Return whether the named process has certainly ended.
    False for running processes, for processes of other machines or containers, and for any text that names no
    process.
    """
    parts = name.split(":")
    if len(parts) < 4 or not parts[1].isdecimal() or parts[3] != _place() or not parts[2]:
        return False
    return _started(int(parts[1])) != parts[2]


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if the process has ended, also for a zombie."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] in ("Z", "X") else after_name[_STARTED]


@cache
def _place() -> str:
    """Return twelve hexadecimal digits that identify this boot and PID namespace; "" on a system without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return hashlib.sha256(f"{boot} {Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:12]
    except OSError:
        return ""
