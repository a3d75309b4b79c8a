"""Showing one child process other folders than everybody else sees: a private mount namespace.

The server's test then reads the staged files under their real names, absolute include paths and all, while nothing
changes for the running server. Root may do that; so may anybody where the kernel allows user namespaces.
unshare(2) and mount(2) are called through ctypes because Python 3.8 has neither.
"""

from __future__ import annotations

import os

from agents.host import faults

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from typing import Callable

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_supported: bool | None = None
_libc: ctypes.CDLL | None = None


def is_supported() -> bool:
    """Whether this process may make one; tried once, in a child."""
    global _supported
    if faults.is_missing("namespaces"):
        return False
    if _supported is None:
        _load()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                entering([])()
                code = 0
            finally:
                os._exit(code)
        _supported = os.waitpid(pid, 0)[1] == 0
    return _supported


def entering(binds: list[tuple[str, str]]) -> Callable[[], None]:
    """What a child calls before it becomes the server: a namespace in which each (source, target) is bind-mounted,
    in that order. Everything is prepared here, so that the child only makes system calls; it fails with OSError."""
    libc = _load()
    steps = [(source.encode(), target.encode()) for source, target in binds]
    uid, gid, privileged = os.geteuid(), os.getegid(), os.geteuid() == 0
    flags = CLONE_NEWNS if privileged else CLONE_NEWNS | CLONE_NEWUSER

    def enter() -> None:
        _check(libc.unshare(flags))
        if not privileged:
            _write("/proc/self/setgroups", b"deny")
            _write("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
            _write("/proc/self/gid_map", b"%d %d 1" % (gid, gid))
        _check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        for source, target in steps:
            _check(libc.mount(source, target, None, MS_BIND | MS_REC, None))

    return enter


def _load() -> ctypes.CDLL:
    global _libc
    if _libc is None:
        import ctypes

        _libc = ctypes.CDLL(None, use_errno=True)
    return _libc


def _check(result: int) -> None:
    if result != 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
