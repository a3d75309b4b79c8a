"""Show different files to one child process by a private mount namespace.

A server's test of its configuration then reads the staged files under their real names, including absolute paths, while
the running server is not affected. This needs root, or a kernel that permits user namespaces. unshare(2) and mount(2)
are called through the C library, because Python 3.8 has neither.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Callable, TypeVar

from agents.host import faults

T = TypeVar("T")
Prepare = Callable[[], None]

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000

_supported: bool | None = None


def is_supported() -> bool:
    """Return whether this process can create a mount namespace; tested once."""
    global _supported
    if faults.is_missing("namespaces"):
        return False
    if _supported is None:
        _supported = _try_thread() if os.geteuid() == 0 else _try_child()
    return _supported


def within(binds: list[tuple[str, str]], run: Callable[[Prepare | None], T]) -> T:
    """Call `run(prepare)`, which starts a program, so that the program runs in a mount namespace with the bind mounts
    in `binds`; return its result.

    A namespace belongs to a thread. For root, `run` is called in a temporary thread inside the namespace, and `prepare`
    is None: the child needs no preparation, and the agent's page tables are not copied. Without root, a user namespace
    is needed, which a single thread of several cannot enter (EINVAL); so the child process itself must call `prepare`.
    """
    enter = entering(binds)
    return _in_thread(enter, run) if os.geteuid() == 0 else run(enter)


def _in_thread(enter: Prepare, run: Callable[[Prepare | None], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            enter()
            results.append(run(None))
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _try_thread() -> bool:
    try:
        return _in_thread(entering([]), lambda _: True)
    except OSError:
        return False


def _try_child() -> bool:
    _load()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            entering([])()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def entering(binds: list[tuple[str, str]]) -> Prepare:
    """Return a function that creates a mount namespace and bind-mounts each (source, target) in it, in this order.

    The function runs in a thread, or in a child process before the program starts there. It only makes system calls,
    because all data is prepared in advance. It raises OSError if a call fails.
    """
    unshare, mount, failure = _load()
    steps = [(source.encode(), target.encode()) for source, target in binds]
    uid, gid, privileged = os.geteuid(), os.getegid(), os.geteuid() == 0
    flags = CLONE_NEWNS if privileged else CLONE_NEWNS | CLONE_NEWUSER

    def check(result: int) -> None:
        if result != 0:
            number = failure()
            raise OSError(number, os.strerror(number))

    def enter() -> None:
        check(unshare(flags))
        if not privileged:
            _write("/proc/self/setgroups", b"deny")
            _write("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
            _write("/proc/self/gid_map", b"%d %d 1" % (gid, gid))
        check(mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        for source, target in steps:
            check(mount(source, target, None, MS_BIND | MS_REC, None))

    return enter


def _load() -> tuple[Any, Any, Any]:
    import ctypes  # here, since only a test of a staged configuration needs it

    library = ctypes.CDLL(None, use_errno=True)
    return library.unshare, library.mount, ctypes.get_errno


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
