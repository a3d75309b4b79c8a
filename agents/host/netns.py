"""Network namespaces that end with one of the agent's processes. They have no names, so they cannot be left behind.

A keeper is a sleeping process in a new network namespace. Threads of the agent enter this namespace with setns(2);
children of such a thread start inside. When the last process inside ends, the kernel removes the namespace and all of
its interfaces, even if the agent was killed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time

from agents.host import commands
from agents.host.errors import Refusal

CLONE_NEWNET = 0x40000000
_START_S = 10.0


def mine() -> str:
    """Return this thread's network namespace in the kernel's notation: `net:[4026531840]`."""
    return os.readlink("/proc/thread-self/ns/net")


class Keeper:
    """Private network namespace that exists as long as `process`, which sleeps. Raises Refusal if the account is not
    root, or if the kernel forbids the namespace.
    """

    def __init__(self) -> None:
        unshare = shutil.which("unshare")
        if unshare is None or os.geteuid() != 0:
            raise Refusal(
                "refused",
                "network profiles need root and unshare(1) on the host; let the agent run as root or with sudo, or "
                "choose no network profile",
            )
        argv = commands.ending_with_agent([unshare, "--net", "--", "sleep", "infinity"])
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )
        self._await(mine())

    def _await(self, outside: str) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                assert self.process.stderr is not None
                words = self.process.stderr.read().decode("utf-8", "replace").strip()
                raise Refusal("failed", "no network namespace could be created: %s" % words)
            name = self.name()
            if name and name != outside:
                return
            time.sleep(0.005)
        self.close()
        raise Refusal("failed", "no network namespace could be created within %g s" % _START_S)

    @property
    def path(self) -> str:
        return "/proc/%d/ns/net" % self.process.pid

    def name(self) -> str:
        try:
            return os.readlink(self.path)
        except OSError:
            return ""

    def enter(self) -> None:
        """Move the calling thread permanently into the namespace."""
        enter(self.path)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


def enter(path: str) -> None:
    """Move the calling thread into a network namespace by setns(2), for which Python 3.8 has no function."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(descriptor)
