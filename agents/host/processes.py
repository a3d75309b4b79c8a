"""Read data about servers from /proc: their processes, children, and error logs."""

from __future__ import annotations

import os
import select
import stat
import time
from typing import Callable, Iterable

from agents.host import safe
from agents.host.errors import Refusal

# Flags that never block on a FIFO or a terminal in place of a file.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAX_READ = 16 * 1024 * 1024
_MAX_ADDED = 256 * 1024
_MAX_LINE = 4096


def read(path: str) -> bytes:
    """Return the content of a file of /proc or of a server's configuration, cut at 16 MiB; b"" if it cannot be read.

    Python's own file objects are not used, because they need five more system calls.
    """
    parts: list[bytes] = []
    size = 0
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return b""
    try:
        while size < _MAX_READ:
            part = os.read(descriptor, 65536)
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def exists(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    state = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def is_zombie(pid: int) -> bool:
    """Return whether the process has ended and its parent has not collected it yet."""
    state = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return bool(state) and state[0] in (b"Z", b"X")


def started(pid: int) -> int:
    """Return the time at which the process started, in clock ticks since the boot of the host (see `now`); 0 if it is
    gone.
    """
    fields = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def now() -> int:
    """Return the time since the boot of the host in clock ticks."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def boot() -> str:
    """Return an identifier of the current boot of the host and container.

    It consists of the kernel's boot id and the start time of the first process.
    """
    ident = read("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
    return "%s/%d" % (ident, started(1))


def program(pid: int) -> str:
    """Return the file name of a process's program, also after the file was replaced. If the link /proc/PID/exe cannot
    be read, return the kernel's name of the process, at most 15 characters.
    """
    try:
        path = os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return read("/proc/%d/comm" % pid).decode("utf-8", "replace").strip()
    if path.endswith(" (deleted)"):
        path = path[: -len(" (deleted)")]
    return os.path.basename(path)


def title(pid: int) -> str:
    """Return the process's command line. nginx shows the state of a process there."""
    return read("/proc/%d/cmdline" % pid).replace(b"\0", b" ").decode("utf-8", "replace").strip()


def parent(pid: int) -> int:
    fields = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def children(pid: int, living: bool = True) -> frozenset[int]:
    """Return the ids of the child processes of `pid`. With `living`, zombies are left out."""
    known = read("/proc/%d/task/%d/children" % (pid, pid))
    if known:
        return frozenset(child for child in map(int, known.split()) if not living or exists(child))
    if os.path.exists("/proc/self/task/%d/children" % os.getpid()):
        return frozenset()
    everyone = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return frozenset(child for child in everyone if parent(child) == pid and exists(child))


def listens(pid: int, inodes: Iterable[str]) -> bool:
    """Return whether a process has any of the sockets with these inodes open."""
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
    """Wait until all processes have ended, at most `timeout_s`. On Python 3.8, which lacks pidfd_open, always wait for
    `timeout_s`.
    """
    open_pid = getattr(os, "pidfd_open", None)
    if open_pid is None:
        time.sleep(timeout_s)
        return
    deadline = time.monotonic() + timeout_s
    for pid in pids:
        try:
            descriptor = open_pid(pid)
        except OSError:  # already ended
            continue
        try:
            waiting = select.poll()
            waiting.register(descriptor, select.POLLIN)
            waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
        finally:
            os.close(descriptor)


def pid_in(path: str, believed: bool = True) -> int:
    """Return the process id in a pid file; 0 if there is none.

    If another account could have written the file, the result is 0 too, because that account would choose the process
    that receives a signal. With `believed` False, this check is skipped.
    """
    try:
        if believed:
            safe.true_path(os.path.dirname(path))
        descriptor = os.open(path, _READ)
    except (OSError, Refusal):
        return 0
    try:
        words = os.read(descriptor, 32).split() if stat.S_ISREG(os.fstat(descriptor).st_mode) else []
        return int(words[0]) if words and words[0].isdigit() else 0
    except OSError:
        return 0
    finally:
        os.close(descriptor)


def is_idle(pid: int) -> tuple[bool, bytes]:
    """Return (whether the process sleeps, its CPU time as a text). If the process does nothing, a later call returns an
    equal result.
    """
    fields = read("/proc/%d/stat" % pid).rpartition(b")")[2].split()
    return (fields[0] == b"S", fields[11] + b" " + fields[12]) if len(fields) > 12 else (False, b"")


class Log:
    """Error log of a running process, from the end that the log has when this object is created.

    The file that the process holds open is read, not its name: the log's folder may belong to a site, so the name may
    meanwhile refer to another file.
    """

    def __init__(self, descriptor: int, path: str) -> None:
        self.path = path
        self._descriptor = descriptor
        self._from = os.fstat(descriptor).st_size

    def __del__(self) -> None:
        os.close(self._descriptor)

    def lines(self) -> list[str]:
        """Return the complete lines written since the creation of this object."""
        text = os.pread(self._descriptor, _MAX_ADDED, self._from) + self._successors()
        return [line[:_MAX_LINE].decode("utf-8", "replace") for line in text.split(b"\n")[:-1]]

    def _successors(self) -> bytes:
        """Return the beginning of the new file if the log was rotated since the creation of this object;
        b"" otherwise.
        """
        try:
            folder = os.open(os.path.dirname(self.path), os.O_PATH | os.O_DIRECTORY)
        except OSError:
            return b""
        try:
            descriptor = safe.open_regular(os.path.basename(self.path), folder, self.path)
        except (OSError, Refusal):
            return b""
        finally:
            os.close(folder)
        try:
            same = os.path.samestat(os.fstat(descriptor), os.fstat(self._descriptor))
            return b"" if same else os.pread(descriptor, _MAX_ADDED, 0)
        finally:
            os.close(descriptor)


def error_logs(pid: int) -> list[Log]:
    """Return the error logs that a process holds open."""
    found: dict[str, Log] = {}
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        held = "%s/%s" % (folder, name)
        try:
            path = os.readlink(held)
            wanted = path.startswith("/") and "err" in os.path.basename(path) and not path.endswith(" (deleted)")
            if wanted and path not in found and stat.S_ISREG(os.stat(held).st_mode):
                found[path] = Log(os.open(held, _READ), path)
        except OSError:
            continue
    return list(found.values())


def added(logs: Iterable[Log], wanted: Callable[[str], bool]) -> str:
    """Return the lines that were added to `logs` since `error_logs` opened them and for which `wanted` returns true,
    joined by newlines.
    """
    return "\n".join(line for log in logs for line in log.lines() if wanted(line))
