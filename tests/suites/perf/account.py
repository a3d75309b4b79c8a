"""CPU seconds of everything that a benchmark starts, daemons included, and of nothing else: a control group counts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# The folder of a group below which one may be made, the file that counts its CPU time, and a second in its unit.
KINDS = (
    (Path("/sys/fs/cgroup/cpuacct"), "cpuacct.usage", 1e9),  # version 1
    (Path("/sys/fs/cgroup/unified"), "cpu.stat", 1e6),  # version 2 beside it
    (Path("/sys/fs/cgroup"), "cpu.stat", 1e6),
)
_FILE, _UNIT = "PADDOCK_PERF_CPU_FILE", "PADDOCK_PERF_CPU_UNIT"


@contextmanager
def own_group() -> Iterator[str]:
    """Counts this process and its descendants in a group of their own; says what is counted. Without the right to
    make one, all CPUs of the machine are, whoever uses them."""
    for parent, name, unit in KINDS:
        group = parent / f"paddock-perf-{os.getpid()}"
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(os.getpid()))
            (group / name).read_text()
        except OSError:
            continue
        os.environ.update({_FILE: str(group / name), _UNIT: str(unit)})
        try:
            yield "CPU seconds are those of what the benchmark started"
        finally:
            del os.environ[_FILE]
            (parent / "cgroup.procs").write_text(str(os.getpid()))
            with suppress(OSError):  # a daemon that is still ending
                group.rmdir()
        return
    yield "CPU seconds are those of the whole machine"


def cpu_seconds() -> float:
    """Since some moment in the past."""
    if _FILE in os.environ:
        words = Path(os.environ[_FILE]).read_text().split()
        return int(words[1] if words[0] == "usage_usec" else words[0]) / float(os.environ[_UNIT])
    fields = [int(value) for value in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = fields
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
