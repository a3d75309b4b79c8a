"""What /proc says about servers: which process is theirs, its children, what they listen on."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable


def read(path: str) -> bytes:
    """A file of /proc, b"" when its process has gone. Without Python's own buffer, which asks the file five more
    things."""
    parts: list[bytes] = []
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        while True:
            part = os.read(descriptor, 65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def exists(pid: int) -> bool:
    """Whether the process is there and not a zombie."""
    state = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def started(pid: int) -> int:
    """When the process began, in ticks as `now` tells them; 0 when it is gone."""
    fields = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def now() -> int:
    """Ticks since the machine was started."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def boot() -> str:
    """Another one after every start of the machine, and of the container: the kernel's boot id, and when the first
    process began."""
    ident = read("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
    return "%s/%d" % (ident, started(1))


def program(pid: int) -> str:
    """The file name of what the process runs, "" when it cannot be seen; a replaced binary keeps its name."""
    try:
        path = os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return read("/proc/%d/comm" % pid).decode("utf-8", "replace").strip()
    if path.endswith(" (deleted)"):
        path = path[: -len(" (deleted)")]
    return os.path.basename(path)


def title(pid: int) -> str:
    """The command line, which nginx writes its state into."""
    return read("/proc/%d/cmdline" % pid).replace(b"\0", b" ").decode("utf-8", "replace").strip()


def parent(pid: int) -> int:
    fields = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def children(pid: int, living: bool = True) -> frozenset[int]:
    """The living children of a process; with those that have ended and were not waited for unless `living`."""
    known = read("/proc/%d/task/%d/children" % (pid, pid))
    if known:
        return frozenset(child for child in map(int, known.split()) if not living or exists(child))
    if os.path.exists("/proc/self/task/%d/children" % os.getpid()):
        return frozenset()
    everyone = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return frozenset(child for child in everyone if parent(child) == pid and exists(child))


def listening_inodes() -> frozenset[str]:
    """The inodes of all TCP sockets that listen."""
    found = set()
    for name in ("tcp", "tcp6"):
        for line in read("/proc/net/" + name).decode("ascii", "replace").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == "0A":
                found.add(fields[9])
    return frozenset(found)


def listens(pid: int, inodes: Iterable[str]) -> bool:
    """Whether the process still holds one of the listening sockets."""
    wanted = {"socket:[%s]" % inode for inode in inodes}
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink("%s/%s" % (folder, name)) in wanted:
                return True
        except OSError:
            continue
    return False


def wait_ended(pids: Iterable[int], timeout_s: float) -> None:
    """Until all of these have ended, at most `timeout_s`: woken by the kernel where Python is 3.9 or newer."""
    open_pid = getattr(os, "pidfd_open", None)
    if open_pid is None:
        time.sleep(timeout_s)
        return
    deadline = time.monotonic() + timeout_s
    for pid in pids:
        try:
            descriptor = open_pid(pid)
        except OSError:  # it has ended
            continue
        try:
            waiting = select.poll()
            waiting.register(descriptor, select.POLLIN)
            waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
        finally:
            os.close(descriptor)


def error_logs(pid: int) -> dict[str, int]:
    """The error logs that a process holds open, and how long each is now."""
    found = {}
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    for name in names:
        try:
            path = os.readlink("%s/%s" % (folder, name))
            if path.startswith("/") and "err" in os.path.basename(path) and not path.endswith(" (deleted)"):
                found[path] = os.stat(path).st_size
        except OSError:
            continue
    return found


def added(logs: dict[str, int], limit: int = 8192) -> str:
    """What was written to these logs since `error_logs` looked."""
    texts = []
    for path, size in logs.items():
        try:
            with open(path, "rb") as file:
                file.seek(size)
                texts.append(file.read(limit).decode("utf-8", "replace"))
        except OSError:
            continue
    return "".join(texts)
