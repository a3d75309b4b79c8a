"""Operation `resources`: report the use of processor, memory, file systems, clock and open files, from /proc."""

from __future__ import annotations

import os
import re
import threading
import time
from typing import Any

from agents.host import processes
from agents.host.operations import Emit

MOST_DISKS = 32
# File systems on disks of this host. Others are skipped: statvfs(3) of a network file system may wait for ever.
_ON_DISK = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "vfat", "xfs", "zfs"}
)
_OCTAL = re.compile(r"\\([0-7]{3})")  # spaces and the like in names
_REBOOT = "/var/run/reboot-required"  # written by packages of Debian and Ubuntu, with the file of their names


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Read the use of the host's resources.

    {"time": Unix, "uptime_s", "cpus", "load": [1, 5, 15 min], "cpu": {"busy", "total"} in clock ticks since boot,
    "memory": {"total", "available", "swap_total", "swap_free"} in bytes, "files": {"open", "most"}, "disks": [{"mount",
    "type", "total", "used", "free", "inodes", "inodes_free", "read_only"}] in bytes, "reboot": {"needed", "packages"}}.
    "free" is the space for accounts other than root. Values that this kernel does not report are missing.
    """
    found = {
        "uptime_s": _first("/proc/uptime"),
        "load": _numbers("/proc/loadavg")[:3],
        "cpu": _processor(),
        "memory": _memory(),
        "files": _files(),
    }
    return {
        "time": time.time(),
        "cpus": os.cpu_count() or 1,
        "disks": _disks(),
        "reboot": _reboot(),
        **{name: value for name, value in found.items() if value},
    }


def _numbers(path: str) -> list[float]:
    found = []
    for word in processes.read(path).decode("ascii", "replace").split():
        try:
            found.append(float(word))
        except ValueError:
            break
    return found


def _first(path: str) -> float | None:
    return next(iter(_numbers(path)), None)


def _processor() -> dict[str, int]:
    """Return {"busy", "total"} in clock ticks since boot, from the first line of /proc/stat; {} if it is not readable.

    The fields are user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is part of user.
    """
    line = processes.read("/proc/stat").decode("ascii", "replace").split("\n", 1)[0].split()
    if len(line) < 6 or line[0] != "cpu":
        return {}
    ticks = [int(word) for word in line[1:9]]
    return {"busy": sum(ticks) - ticks[3] - ticks[4], "total": sum(ticks)}


def _memory() -> dict[str, int]:
    lines = processes.read("/proc/meminfo").decode("ascii", "replace").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {"total": "MemTotal", "available": "MemAvailable", "swap_total": "SwapTotal", "swap_free": "SwapFree"}
    return {name: int(fields[field].split()[0]) * 1024 for name, field in names.items() if field in fields}


def _files() -> dict[str, int]:
    numbers = _numbers("/proc/sys/fs/file-nr")
    return {"open": int(numbers[0]), "most": int(numbers[2])} if len(numbers) == 3 else {}


def _disks() -> list[dict[str, Any]]:
    """Return the sizes of the local file systems, as in "disks" of `run`, each device once. The first is `/`."""
    found: list[dict[str, Any]] = []
    devices = set()
    for mount, kind in _mounts():
        if mount != "/" and (kind not in _ON_DISK or not os.path.isdir(mount)):
            continue
        try:
            device, sizes = os.stat(mount).st_dev, os.statvfs(mount)
        except OSError:  # unmounted meanwhile, or below a folder that this account cannot enter
            continue
        if device in devices or not sizes.f_blocks:
            continue
        devices.add(device)
        found.append(_disk(mount, kind, sizes))
        if len(found) == MOST_DISKS:
            break
    return found


def _disk(mount: str, kind: str, sizes: os.statvfs_result) -> dict[str, Any]:
    return {
        "mount": mount,
        "type": kind,
        "total": sizes.f_blocks * sizes.f_frsize,
        "used": (sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize,
        "free": sizes.f_bavail * sizes.f_frsize,
        "inodes": sizes.f_files,
        "inodes_free": sizes.f_favail,
        "read_only": bool(sizes.f_flag & os.ST_RDONLY),
    }


def _mounts() -> list[tuple[str, str]]:
    """Return (mount point, type) of all mounts from /proc/self/mountinfo (proc(5)), shortest path first.

    In this order, a device usually comes before its bind mounts.
    """
    found = []
    for line in processes.read("/proc/self/mountinfo").decode("utf-8", "replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ", 1)[0]
        if len(fields) > 4:
            found.append((_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]), kind))
    return sorted(found, key=lambda mount: (len(mount[0]), mount[0]))


def _reboot() -> dict[str, Any]:
    """Return {"needed", "packages"}: whether the distribution asks for a reboot, and the packages that need it, if
    recorded.
    """
    packages = processes.read(_REBOOT + ".pkgs").decode("utf-8", "replace").split()
    return {"needed": os.path.exists(_REBOOT), "packages": list(dict.fromkeys(packages))[:50]}
