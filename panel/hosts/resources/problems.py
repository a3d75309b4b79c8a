"""Find the problems in a reading of a host's resources, by limits, and describe them. Pure functions, without input or
output.

A problem begins at one limit and ends at a lower one, so that a value near a limit does not raise alerts repeatedly.
Problems with memory and the clock must be seen in two readings in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from django.utils.translation import gettext as _

from panel.core.templatetags.ui import bytes_iec, percent
from panel.hosts.resources.readings import Disk, Problem, Reading

DISK_SHARE, DISK_ENDS = 0.90, 0.87  # of a file system with less than DISK_FREE left
DISK_FREE, DISK_FREE_ENDS = 10 * 2**30, 15 * 2**30  # bytes; a large disk at 90 % has room for months
DISK_FULL, DISK_FULL_ENDS = 0.97, 0.96  # of any file system
INODES_SHARE, INODES_END = 0.90, 0.87
MEMORY_SHARE, MEMORY_ENDS = 0.95, 0.92  # not available without taking it from programs
LOAD_PER_CPU, LOAD_ENDS = 4.0, 3.0  # over 15 minutes
FILES_SHARE, FILES_END = 0.90, 0.87
CLOCK_S, CLOCK_ENDS_S = 30.0, 10.0

_QUICK = frozenset({"memory", "clock"})


@dataclass(frozen=True)
class Limit:
    """Limit of one value of a reading: the value at which a problem begins, and the lower one at which it ends."""

    value: Callable[[Reading], float | None]
    begins: float
    ends: float


_LIMITS = {
    "memory": Limit(lambda reading: reading.memory_share, MEMORY_SHARE, MEMORY_ENDS),
    "load": Limit(lambda reading: _load_per_cpu(reading), LOAD_PER_CPU, LOAD_ENDS),
    "files": Limit(lambda reading: reading.files_share, FILES_SHARE, FILES_END),
    "clock": Limit(
        lambda reading: None if reading.clock_offset_s is None else abs(reading.clock_offset_s), CLOCK_S, CLOCK_ENDS_S
    ),
}
KINDS = ("disk", "inodes", "read_only", *_LIMITS)


def judged(reading: Reading, before: Reading | None) -> Reading:
    """Return `reading` with its problems set. They depend on `before`, the previous reading: a problem ends at a
    lower limit than it begins, and some kinds must be seen twice in a row.
    """
    old = set(before.problems) if before else set()
    seen = [*chain.from_iterable(_of_disk(disk, old, before) for disk in reading.disks), *_of_limits(reading, old)]
    known = old | (set(before.suspected) if before else set())
    is_sure = {problem: problem.kind not in _QUICK or problem in known for problem in seen}
    return replace(
        reading,
        problems=tuple(problem for problem in seen if is_sure[problem]),
        suspected=tuple(problem for problem in seen if not is_sure[problem]),
    )


def _of_disk(disk: Disk, old: set[Problem], before: Reading | None) -> Iterator[Problem]:
    read_only = Problem("read_only", disk.mount)
    if disk.read_only:
        was_writable = before is not None and any(row.mount == disk.mount and not row.read_only for row in before.disks)
        if was_writable or read_only in old:
            yield read_only
        return
    full = Problem("disk", disk.mount)
    shares = (DISK_ENDS, DISK_FREE_ENDS, DISK_FULL_ENDS) if full in old else (DISK_SHARE, DISK_FREE, DISK_FULL)
    if disk.used_share >= shares[2] or (disk.used_share >= shares[0] and disk.free < shares[1]):
        yield full
    inodes = Problem("inodes", disk.mount)
    if disk.inodes_share >= (INODES_END if inodes in old else INODES_SHARE):
        yield inodes


def _of_limits(reading: Reading, old: set[Problem]) -> Iterator[Problem]:
    for kind, limit in _LIMITS.items():
        problem, value = Problem(kind), limit.value(reading)
        if value is not None and value >= (limit.ends if problem in old else limit.begins):
            yield problem


def _load_per_cpu(reading: Reading) -> float | None:
    return reading.load[2] / reading.cpus if len(reading.load) == 3 and reading.cpus else None


def label(problem: Problem) -> str:
    """Return the short name of a problem, for example "Disk almost full"."""
    return {
        "disk": _("Disk almost full"),
        "inodes": _("Inodes almost used up"),
        "read_only": _("Read-only file system"),
        "memory": _("Memory almost used up"),
        "load": _("High load"),
        "files": _("Many open files"),
        "clock": _("Wrong clock"),
    }[problem.kind]


def words(problem: Problem, reading: Reading) -> str:
    """Describe a problem in one sentence, with the values in `reading` that show the problem."""
    disk = next((disk for disk in reading.disks if disk.mount == problem.of), None)
    if disk is not None:
        return _of_disk_words(problem, disk)
    if problem.kind == "load":
        return _("The load average over 15 minutes is %(load).1f on %(cpus)d CPUs") % {
            "load": reading.load[2],
            "cpus": reading.cpus,
        }
    if problem.kind == "clock":
        offset = reading.clock_offset_s or 0.0
        ahead = _("The clock is %d seconds ahead of the panel's clock")
        behind = _("The clock is %d seconds behind the panel's clock")
        return (ahead if offset > 0 else behind) % round(abs(offset))
    if problem.kind == "memory":
        return _("Only %(free)s of %(total)s of memory are available") % {
            "free": bytes_iec(reading.memory_available),
            "total": bytes_iec(reading.memory_total),
        }
    return _("%(open)d files are open; the kernel allows at most %(most)d") % {
        "open": reading.files_open,
        "most": reading.files_most,
    }


def _of_disk_words(problem: Problem, disk: Disk) -> str:
    values = {"mount": disk.mount, "free": bytes_iec(disk.free), "percent": percent(disk.used_share)}
    if problem.kind == "read_only":
        return (
            _("The file system %(mount)s became read-only, for example after a disk error; see the kernel log") % values
        )
    if problem.kind == "inodes":
        return _("The file system %(mount)s has inodes for only %(left)d more files") % {
            **values,
            "left": disk.inodes_free,
        }
    return _("The file system %(mount)s is %(percent)s full; %(free)s are free") % values
