"""What the kernel says about a server's processes, and about this machine."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """A process and all that came from it."""
    found = [pid]
    for known in found:
        for task in Path(f"/proc/{known}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.extend(int(child) for child in task.read_text().split())
    return found


def _clock(pid: int) -> int:
    """The kernel's clock of a process's CPU time (clock_getcpuclockid(3)), threads that ended included."""
    return (~pid << 3) | 2


def cpu_seconds(pid: int) -> float:
    """User and system time of a process tree, in nanoseconds; of children that ended, in ticks."""
    total = 0.0
    for member in tree(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{member}/stat").read_text().rsplit(")", 1)[1].split()
            ended = sum(int(field) for field in fields[13:15])
            total += time.clock_gettime(_clock(member)) + ended / TICKS
    return total


def _status(pid: int, name: str, file: str = "status") -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak(pid: int) -> None:
    for member in tree(pid):
        with contextlib.suppress(OSError):
            Path(f"/proc/{member}/clear_refs").write_text("5")


def peak_rss(pid: int) -> int:
    """Bytes: the largest resident size since `reset_peak`, summed over the tree."""
    return sum(_status(member, "VmHWM:") for member in tree(pid))


def memory(pid: int) -> int:
    """Bytes resident now; pages that processes share are counted once."""
    return sum(_status(member, "Pss:", "smaps_rollup") for member in tree(pid))


def free_port() -> int:
    """Free for TCP and UDP a moment ago."""
    while True:
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            with contextlib.suppress(OSError):
                udp.bind(("127.0.0.1", port))
                return port


def machine() -> str:
    """One line: processor, cores, memory, kernel."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    model = models[0].split(":", 1)[1].strip() if models else platform.machine()
    gigabytes = _status(0, "", "status") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    virtual = "virtual machine, " if "hypervisor" in Path("/proc/cpuinfo").read_text() else ""
    return f"{virtual}{os.cpu_count()} cores of {model}, {gigabytes / 2**30:.0f} GB, Linux {platform.release()}"
