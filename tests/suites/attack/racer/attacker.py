"""The unprivileged account: what it may swap, what it swaps it for, and what of root's must stay as it was.

Everything is done with the account's own file system identity (setfsuid(2) of this thread), so that the kernel decides
what it may do. Only a hard link to a file of root's is made as root where the account may write the folder: kernels
with fs.protected_hardlinks=0 let the account do that.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from tests.suites.attack.racer.ptrace_steps import Undo, libc

ACCOUNT = pwd.getpwnam("www-data")
KINDS = ("link-file", "link-folder", "hard-link", "fifo", "folder", "file")
_ASIDE = ".aside"


@contextlib.contextmanager
def as_account() -> Iterator[None]:
    libc.setfsgid(ACCOUNT.pw_gid)
    libc.setfsuid(ACCOUNT.pw_uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(0)


class Canaries:
    """What is root's: a file that nobody else may read, a folder like /etc/cron.d, and a place that only a program of
    the attacker's that runs as root can write to."""

    def __init__(self, place: Path) -> None:
        self.token = "CANARY" + secrets.token_hex(8)
        place.mkdir(mode=0o755)
        self.secret, self.folder, self.ran = place / "shadow", place / "cron.d", place / "ran"
        # Also the request of an access log: an agent that read it as one would name the token.
        request = f'"GET /{self.token}.css HTTP/1.1" 200 5'
        self.secret.write_text(f"root:{self.token}:19000:0:99999:7:::{request}\n")
        self.secret.chmod(0o600)
        self.folder.mkdir(mode=0o755)
        # Names that the agent looks for, so that a link to this folder leads somewhere.
        for name in ("keep", "nginx.conf", "server.conf", "httpd.conf", "httpd_config.conf", ".lock", "access.log"):
            (self.folder / name).write_text(f"# {self.token} {request}\n")
            (self.folder / name).chmod(0o644)
        self.ran.mkdir(mode=0o700)
        self._before = self._state()

    def _state(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for path in [self.secret, self.folder, *sorted(self.folder.rglob("*"))]:
            info = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
            found[path.name] = (oct(info.st_mode), info.st_uid, info.st_gid, content)
        return found

    def broken(self, said: bytes) -> list[str]:
        """What an attacker got, in words: nothing, where all is well. `said`: all that the agent sent."""
        now = self._state()
        words = [f"{name} was {change}" for name, change in self._changes(now)]
        words += [f"the attacker's program ran as root ({path.name})" for path in self.ran.iterdir()]
        if self.token.encode() in said:
            words.append("the agent told what only root may read")
        return words

    def _changes(self, now: dict[str, object]) -> Iterator[tuple[str, str]]:
        for name in sorted({*self._before, *now}):
            if name not in self._before:
                yield name, "written into root's folder"
            elif name not in now:
                yield name, "removed"
            elif now[name] != self._before[name]:
                yield name, f"changed: {str(self._before[name])[:60]} -> {str(now[name])[:60]}"


class Attacker:
    """Swaps names below `arena`, wherever its account may."""

    def __init__(self, arena: Path, canaries: Canaries) -> None:
        self._arena = str(arena)
        self._canaries = canaries

    def swappable(self, path: str) -> list[str]:
        """The parts of the path that the account may rename or make, outermost first."""
        found, parts = [], os.path.normpath(path).split("/")
        for number in range(2, len(parts) + 1):
            part = "/".join(parts[:number])
            inside = part.startswith(self._arena + "/")
            if inside and not part.startswith(str(self._canaries.folder.parent)) and self._may_swap(part):
                found.append(part)
        return found

    def _may_swap(self, path: str) -> bool:
        try:
            folder = os.stat(os.path.dirname(path))
        except OSError:
            return False
        if not (folder.st_uid == ACCOUNT.pw_uid and folder.st_mode & 0o200):
            if not folder.st_mode & 0o002:
                return False
            if folder.st_mode & stat.S_ISVTX:
                with contextlib.suppress(FileNotFoundError):
                    return os.lstat(path).st_uid == ACCOUNT.pw_uid
        return True

    def swap(self, path: str, kind: str) -> Undo:
        """Puts something else in the path's place; what puts the former thing back."""
        aside = path + _ASIDE
        with as_account():
            had = _renamed(path, aside)
            with contextlib.suppress(OSError):
                self._plant(path, kind)

        def undo() -> None:
            with as_account():
                _removed(path)
                if had:
                    _renamed(aside, path)

        return undo

    def _plant(self, path: str, kind: str) -> None:
        if kind == "link-file":
            os.symlink(self._canaries.secret, path)
        elif kind == "link-folder":
            os.symlink(self._canaries.folder, path)
        elif kind == "fifo":
            os.mkfifo(path, 0o666)
        elif kind == "folder":
            os.mkdir(path, 0o777)
        elif kind == "hard-link":
            # The kernel's answer to the account's own attempt depends on a setting; here it is always allowed.
            descriptor = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
            try:
                libc.setfsuid(0)
                os.link(self._canaries.secret, os.path.basename(path), dst_dir_fd=descriptor)
            finally:
                libc.setfsuid(ACCOUNT.pw_uid)
                os.close(descriptor)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
            os.write(descriptor, self._hostile(os.path.basename(path)))
            os.close(descriptor)

    def _hostile(self, name: str) -> bytes:
        """A file that would let its author become root where root runs it, or reads it as configuration."""
        if name.endswith((".conf", ".cnf")):
            log = f"{self._canaries.folder}/evil"
            return f"[mariadbd]\nlog-error={log}\n#".encode() if "server" in name else f"error_log {log};\n".encode()
        if name.endswith(".pid"):
            return b"1\n"
        return f"#!/bin/sh\n[ $(id -u) = 0 ] && echo {name} > {self._canaries.ran}/{name}\n".encode()


def _renamed(path: str, to: str) -> bool:
    try:
        os.rename(path, to)
    except OSError:
        return False
    return True


def _removed(path: str) -> None:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
