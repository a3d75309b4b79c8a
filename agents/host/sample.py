"""Measure CPU and memory of process trees over time, from /proc (proc(5)).

A tree is a process and its descendants. Its root is named by the path of a pid file, by `pid:123`, by a pattern for
process names (`php-fpm*`, compared with the kernel's 15 characters), or by such a pattern among the descendants of a
process (`pid:123/lsphp*`). Descendants that are the root of another tree belong only to that tree, so a server that
starts PHP itself is charged only for its own processes.

CPU time of a tree is the sum of utime, stime, cutime and cstime of its processes. When a child ends, its time moves to
its parent's cutime, so nothing is lost or counted twice.
"""

from __future__ import annotations

import fnmatch
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from agents.host.errors import Refusal
from agents.host.processes import pid_in

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Sampling must not become a load: reading /proc uses at most this fraction of one CPU.
_OWN_SHARE = 0.02
MAX_SECONDS = 3600.0


@dataclass(frozen=True)
class Process:
    """One process from /proc/PID/stat: seconds of CPU, bytes of resident memory."""

    pid: int
    parent: int
    name: str
    cpu_s: float
    rss_bytes: int


def parse_stat(text: str) -> Process:
    """Parse /proc/PID/stat. The name is in parentheses and may contain parentheses and spaces."""
    opening, closing = text.index("("), text.rindex(")")
    fields = text[closing + 2 :].split()
    ticks = sum(int(value) for value in fields[11:15])
    return Process(
        pid=int(text[:opening]),
        parent=int(fields[1]),
        name=text[opening + 1 : closing],
        cpu_s=ticks / _TICKS,
        rss_bytes=int(fields[21]) * _PAGE,
    )


def processes() -> dict[int, Process]:
    """Return all processes as {process ID: Process}; processes that end during the call are left out."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open("/proc/" + entry + "/stat", encoding="utf-8", errors="replace") as file:
                process = parse_stat(file.read())
        except (OSError, ValueError):
            continue
        found[process.pid] = process
    return found


def root_pids(sources: Iterable[str], table: dict[int, Process]) -> set[int]:
    """Return the ids of a tree's root processes. `sources` name them as described at the top of this module; a missing
    or outdated pid file names none.
    """
    roots = set()
    for source in sources:
        if source.startswith("/"):
            pid = pid_in(source, believed=False)  # reading another process's usage is harmless
            if pid in table:
                roots.add(pid)
        elif source.startswith("pid:"):
            number, _, pattern = source[4:].partition("/")
            begin = {int(number)} & set(table)
            roots.update(_named(pattern, tree(begin, table)) if pattern else begin)
        else:
            roots.update(_named(source, table.values()))
    return roots


def _named(pattern: str, among: Iterable[Process]) -> set[int]:
    return {process.pid for process in among if fnmatch.fnmatchcase(process.name, pattern[:15])}


def tree(roots: set[int], table: dict[int, Process], ends: frozenset[int] = frozenset()) -> list[Process]:
    """Return the processes `roots` with all their descendants. A descendant in `ends` is left out with its own
    descendants, because it is the root of another tree.
    """
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    members, waiting = set(), list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in members or (pid in ends and pid not in roots):
            continue
        members.add(pid)
        waiting.extend(children.get(pid, ()))
    return [table[pid] for pid in members]


class Sampler:
    """Collector of samples of process trees. `samples` has a list for each tree: [[seconds since start, CPU percent,
    RSS bytes], ...].

    100 percent is one busy CPU. RSS is summed over the tree: shared pages count once for each process.
    """

    def __init__(self, trees: dict[str, list[str]], hz: float) -> None:
        self.trees = dict(trees)
        self.interval = 1.0 / min(max(hz, 0.1), 50.0)
        self.samples: dict[str, list[list[float]]] = {name: [] for name in self.trees}
        self.cpu_s: dict[str, float] = {}
        self.started = time.monotonic()
        self._first: dict[str, float] = {}
        self._last: dict[str, tuple[float, float]] = {}

    def add(self, name: str, sources: list[str]) -> None:
        """Start sampling another tree."""
        self.trees[name] = sources
        self.samples[name] = []

    def restart_count(self) -> None:
        """Set the CPU seconds in `cpu_s` to zero, for example at the start of the load."""
        self._first.clear()
        self.tick()

    def now(self) -> float:
        return time.monotonic() - self.started

    def tick(self) -> float:
        """Sample every tree once; return the seconds to wait until the next sample, at least 0.01."""
        at, used = self.now(), time.thread_time()
        table = processes()
        roots = {name: root_pids(sources, table) for name, sources in self.trees.items()}
        begins = frozenset(pid for found in roots.values() for pid in found)
        for name, found in roots.items():
            members = tree(found, table, begins)
            if members:
                self._note(name, at, members)
        took = self.now() - at
        # CPU time, not elapsed time: on a busy host sampling may wait, which is no reason to sample less often.
        return max(0.01, max(self.interval, (time.thread_time() - used) / _OWN_SHARE) - took)

    def _note(self, name: str, at: float, members: list[Process]) -> None:
        total = sum(process.cpu_s for process in members)
        self._first.setdefault(name, total)
        self.cpu_s[name] = round(max(0.0, total - self._first[name]), 4)
        since, before = self._last.setdefault(name, (at, total))
        # The kernel counts in ticks of 10 ms, so values over a much shorter time are noise.
        if at - since < self.interval / 2:
            return
        used = max(0.0, total - before)
        rss = sum(process.rss_bytes for process in members)
        self.samples[name].append([round(at, 3), round(100.0 * used / (at - since), 1), rss])
        self._last[name] = (at, total)


def run(args: dict[str, Any], emit: Callable[[dict[str, Any]], None], cancelled: threading.Event) -> dict[str, Any]:
    """Sample process trees: {"trees": {name: [sources]}, "seconds", "hz"} -> {"samples", "cpu_s"}, each by name of the
    tree.

    `{"pids": [...]}` adds one tree with the name "pids".
    """
    trees = {str(name): [str(source) for source in sources] for name, sources in args.get("trees", {}).items()}
    if args.get("pids"):
        trees["pids"] = ["pid:%d" % int(pid) for pid in args["pids"]]
    seconds = float(args.get("seconds", 1.0))
    if not trees or not 0 < seconds <= MAX_SECONDS:
        raise Refusal("invalid", "sample needs at least one tree and 0 < seconds <= %d" % MAX_SECONDS)
    sampler = Sampler(trees, float(args.get("hz", 5.0)))
    while True:
        wait = sampler.tick()
        left = seconds - sampler.now()
        if left <= 0 or cancelled.wait(min(wait, left)):
            break
    return {"samples": sampler.samples, "cpu_s": sampler.cpu_s}
