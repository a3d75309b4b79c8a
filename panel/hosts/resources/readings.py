"""Typed readings of a host's resources. Their values are validated, because hosts are not trusted. Pure functions,
without input or output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar, cast

MOST_DISKS = 32
_MOST = 2**63  # of any number
_T = TypeVar("_T")
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,150}")


@dataclass(frozen=True)
class Disk:
    """A file system of a host; sizes in bytes. `free` is the space that accounts other than root can use."""

    mount: str
    type: str
    total: float
    used: float
    free: float
    inodes: float  # 0: the file system has no fixed number
    inodes_free: float
    read_only: bool

    @property
    def used_share(self) -> float:
        """Used share, from 0 to 1, of the space that accounts other than root can use, as `df` computes it."""
        usable = self.used + self.free
        return self.used / usable if usable else 0.0

    @property
    def inodes_share(self) -> float:
        return 1 - min(self.inodes_free / self.inodes, 1.0) if self.inodes else 0.0


@dataclass(frozen=True)
class Problem:
    """A problem of a host's resources. `kind` is one of problems.KINDS; `of` is the mount point of a disk, else ""."""

    kind: str
    of: str = ""


@dataclass(frozen=True)
class Reading:
    """One reading of a host's resources; None for values that the host did not report. Memory in bytes, shares from 0
    to 1.

    `clock_offset_s`: seconds by which the host's clock is ahead of the panel's clock, negative if it is behind (see
    `_offset`). `cpu_share`: busy share of all processors since the previous reading. `suspected`: problems seen in this
    reading that count only if the next reading has them too.
    """

    uptime_s: float | None = None
    cpus: float | None = None
    load: tuple[float, ...] = ()
    cpu_busy: float | None = None
    cpu_total: float | None = None
    memory_total: float | None = None
    memory_available: float | None = None
    swap_total: float | None = None
    swap_free: float | None = None
    files_open: float | None = None
    files_most: float | None = None
    disks: tuple[Disk, ...] = ()
    reboot_needed: bool = False
    reboot_packages: tuple[str, ...] = ()
    clock_offset_s: float | None = None
    cpu_share: float | None = None
    problems: tuple[Problem, ...] = ()
    suspected: tuple[Problem, ...] = ()

    @property
    def memory_share(self) -> float | None:
        return _used(self.memory_total, self.memory_available)

    @property
    def swap_share(self) -> float | None:
        return _used(self.swap_total, self.swap_free)

    @property
    def files_share(self) -> float | None:
        return min(self.files_open / self.files_most, 1.0) if self.files_open and self.files_most else None

    @property
    def clock_distance_s(self) -> float:
        return abs(self.clock_offset_s or 0.0)

    @property
    def disk_share(self) -> float | None:
        """Used share of the fullest writable file system, from 0 to 1; None if no writable file system was reported."""
        return max((disk.used_share for disk in self.disks if not disk.read_only), default=None)


def _used(total: float | None, free: float | None) -> float | None:
    return 1 - min(free / total, 1.0) if total and free is not None else None


def reading_of(data: Mapping[str, Any], *, asked_at: float, received_at: float) -> Reading:
    """Parse the response of the agent's operation `resources`. `asked_at` and `received_at` are Unix times of the panel
    before and after the request.
    """
    cpu, memory, files = (_mapping(data.get(name)) for name in ("cpu", "memory", "files"))
    reboot = _mapping(data.get("reboot"))
    return Reading(
        uptime_s=_number(data.get("uptime_s")),
        cpus=_number(data.get("cpus")),
        load=_all(data.get("load"), _number, 3),
        cpu_busy=_number(cpu.get("busy")),
        cpu_total=_number(cpu.get("total")),
        memory_total=_number(memory.get("total")),
        memory_available=_number(memory.get("available")),
        swap_total=_number(memory.get("swap_total")),
        swap_free=_number(memory.get("swap_free")),
        files_open=_number(files.get("open")),
        files_most=_number(files.get("most")),
        disks=_all(data.get("disks"), _disk, MOST_DISKS),
        reboot_needed=reboot.get("needed") is True,
        reboot_packages=_all(reboot.get("packages"), _name, 50),
        clock_offset_s=_offset(_number(data.get("time")), asked_at, received_at),
    )


def since(reading: Reading, before: Reading | None) -> Reading:
    """Return `reading` with `cpu_share` set: the busy share of the processors since `before`, the previous reading.
    `cpu_share` stays None without a previous reading, and after a reboot, which resets the counters.
    """
    numbers = (reading.cpu_busy, reading.cpu_total)
    earlier = (before.cpu_busy, before.cpu_total) if before else (None, None)
    if None in numbers or None in earlier:
        return reading
    busy, total = (cast(float, now) - cast(float, then) for now, then in zip(numbers, earlier, strict=True))
    return replace(reading, cpu_share=busy / total) if 0 <= busy <= total and total > 0 else reading


def stored(reading: Reading) -> dict[str, Any]:
    """Convert a reading to a dictionary for the JSON field Host.resources."""
    return asdict(reading)


def loaded(data: Mapping[str, Any]) -> Reading | None:
    """Convert the result of `stored` back to a Reading. Return None for an empty value, and for a value that another
    version of Paddock stored with other fields.
    """
    if set(data) != {field.name for field in fields(Reading)}:
        return None
    parts: dict[str, Callable[[Any], Any]] = {
        "disks": lambda rows: tuple(Disk(**row) for row in rows),
        "problems": lambda rows: tuple(Problem(**row) for row in rows),
        "suspected": lambda rows: tuple(Problem(**row) for row in rows),
        "load": tuple,
        "reboot_packages": tuple,
    }
    try:
        return Reading(**{name: parts.get(name, lambda value: value)(value) for name, value in data.items()})
    except TypeError:
        return None


def _offset(time: float | None, asked_at: float, received_at: float) -> float | None:
    """Return the seconds by which the host's clock is ahead of the panel's (positive) or behind it (negative); None
    without a time.

    The host read its clock (`time`) during a request of the panel. So a time after the end of the request is ahead, a
    time before the beginning is behind, and the offset of a time in between is 0.
    """
    if time is None:
        return None
    return time - received_at if time > received_at else min(time - asked_at, 0.0)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < _MOST and math.isfinite(value) else None


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def _all(values: Any, check: Callable[[Any], _T | None], most: int) -> tuple[_T, ...]:
    rows: Sequence[Any] = values[:most] if isinstance(values, list) else ()
    return tuple(found for found in map(check, rows) if found is not None)


def _disk(value: Any) -> Disk | None:
    row = _mapping(value)
    mount, kind = _name(row.get("mount")), _name(row.get("type"))
    sizes = {name: _number(row.get(name)) for name in ("total", "used", "free", "inodes", "inodes_free")}
    known = {name: size for name, size in sizes.items() if size is not None}
    if mount is None or kind is None or len(known) < len(sizes):
        return None
    return Disk(mount=mount, type=kind, read_only=row.get("read_only") is True, **known)
