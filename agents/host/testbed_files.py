"""Folder of a test bed, with files sent by the panel, and generated files of a given size.

Everything is below one new folder, whose path replaces /PADDOCK-TESTBED in the texts of files. Other placeholders are
replaced by the account of the test bed's servers, and by the folder of Apache's modules. The agent holds a lock in its
folder. If an agent is killed, its lock is released, and the next agent removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import hashlib
import os
import pwd
import re
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from agents.host import install, safe
from agents.host.errors import Refusal, no_space
from agents.host.paths import TESTBED_PREFIX

Owner = Optional[Tuple[int, int]]

PLACE = "/PADDOCK-TESTBED"
MODULES = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")
ACCOUNTS = ("www-data", "apache", "nginx", "http", "nobody")
PROGRAMS = ("paddock-netem", "gallop-load")
MAX_FILES = 2000
MAX_FILL = 4 << 30
REMOVE_TRIES, REMOVE_PAUSE_S = 20, 0.05
LOCKLESS_S = 60.0
_SPARE = 256 << 20  # left free on the disk
_PATH = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,79}/){0,7}[A-Za-z0-9_][A-Za-z0-9._-]{0,79}\Z")
_BLOCK = 1 << 20


class Folder:
    """Private folder of a test bed. A lock in the folder shows whether its agent is alive.

    The agent owns the folder and all folders in it, except those for which `make` gets another owner. All names are
    relative to the folder's descriptor.
    """

    def __init__(self) -> None:
        path, self._descriptor = safe.new_private_folder("." + TESTBED_PREFIX)
        base, draft = os.path.split(path)
        self._base = os.open(base, safe.FOLDER)
        os.fchmod(self._descriptor, 0o755)  # workers run as other users
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        self._lock = os.open(".lock", flags, 0o600, dir_fd=self._descriptor)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Locked before it gets its final name, so that a concurrent sweep does not remove it.
        self._name = draft[1:]
        self.path = os.path.join(base, self._name)
        os.rename(draft, self._name, src_dir_fd=self._base, dst_dir_fd=self._base)

    def write(self, files: List[Dict[str, Any]], fill: List[Dict[str, Any]], folders: List[str]) -> None:
        """Create `folders`, write `files` ({"path", "text", "mode"}), and write generated files of a given size, `fill`
        ({"path", "bytes"}).

        Raises Refusal if the disk has not enough space.
        """
        try:
            for name in folders:
                self.make(name)
            words = dict(_host_words(), **{PLACE: self.path})
            for item in files:
                text = str(item["text"])
                for word, true in words.items():
                    text = text.replace(word, true)
                self.put(str(item["path"]), text.encode(), int(item.get("mode", 0o644)) & 0o755)
            self._fill(fill)
        except OSError as error:
            raise no_space(error, self.path) from None

    def _fill(self, fill: List[Dict[str, Any]]) -> None:
        wanted = sum(int(item["bytes"]) for item in fill)
        disk = os.fstatvfs(self._descriptor)
        free = disk.f_bavail * disk.f_frsize
        if wanted > MAX_FILL or wanted + _SPARE > free:
            raise Refusal(
                "failed",
                (
                    "the files of the test bed need %d MiB, and the disk with %s has %d MiB free (without a reserve of "
                    "256 MiB); free some space, then run again"
                )
                % (wanted >> 20, self.path, free >> 20),
            )
        block = pattern()
        for item in fill:
            left = int(item["bytes"])
            with self._entered(str(item["path"])) as (folder, name):
                safe.remove_tree(name, folder)
                with os.fdopen(os.open(name, safe.NEW, 0o644, dir_fd=folder), "wb") as file:
                    while left > 0:
                        file.write(block[: min(left, len(block))])
                        left -= len(block)

    def put(self, name: str, content: bytes, mode: int, owner: Owner = None) -> None:
        """Write a file below the test bed's folder, and replace an existing file of the same name."""
        with self._entered(name) as (folder, last):
            safe.remove_tree(last, folder)
            safe.write_new(last, folder, content, mode, owner)

    def make(self, name: str, mode: int = 0o755, owner: Owner = None) -> None:
        """Create a folder below the test bed's folder, if it does not exist."""
        with self._entered(name) as (folder, last), contextlib.suppress(FileExistsError):
            os.close(safe.new_folder(last, folder, mode, owner))

    def unlink(self, name: str) -> None:
        with self._entered(name) as (folder, last):
            os.unlink(last, dir_fd=folder)

    @contextlib.contextmanager
    def _entered(self, path: str) -> Iterator[Tuple[int, str]]:
        """Context manager that opens the folder which contains `path`, and creates missing folders. It yields the
        folder's descriptor and the last part of `path`.
        """
        if not _PATH.match(path):
            raise Refusal("refused", "%r is not a plain path below the test bed's folder" % path)
        *parts, last = path.split("/")
        descriptor = os.dup(self._descriptor)
        try:
            for part in parts:
                try:
                    inner = os.open(part, safe.FOLDER, dir_fd=descriptor)
                except FileNotFoundError:
                    inner = safe.new_folder(part, descriptor, 0o755)
                os.close(descriptor)
                descriptor = inner
                if os.fstat(descriptor).st_uid != os.geteuid():
                    raise Refusal("refused", "%s is in a folder of the test bed that belongs to another account" % path)
            yield descriptor, last
        finally:
            os.close(descriptor)

    def programs(self, wanted: Dict[str, Dict[str, str]]) -> None:
        """Install uploaded programs in a folder that only the agent's account can change. `wanted` maps the name of a
        program to {"source", "sha256"}; Refusal if the file has another SHA-256.
        """
        for name, item in wanted.items():
            if name not in PROGRAMS:
                raise Refusal("refused", "%r is no program of a test bed; there are %s" % (name, ", ".join(PROGRAMS)))
            with contextlib.suppress(FileExistsError):
                os.close(safe.new_folder(".bin", self._descriptor, 0o755))
            with install.Place(self.program(name)) as place:
                place.take(place.checked_copy(str(item.get("source")), str(item.get("sha256"))))

    def program(self, name: str) -> str:
        return os.path.join(self.path, ".bin", name)

    def remove(self) -> None:
        """Remove the folder of the test bed. Try again if a process that is just ending wrote to the
        folder meanwhile.
        """
        for _ in range(REMOVE_TRIES):
            safe.remove_tree(self._name, self._base)
            if not os.path.lexists(self.path):
                break
            time.sleep(REMOVE_PAUSE_S)
        for descriptor in (self._lock, self._descriptor, self._base):
            os.close(descriptor)


def _host_words() -> Dict[str, str]:
    modules = next((path for path in MODULES if os.path.isdir(path)), MODULES[0])
    owner = account()
    group = grp.getgrgid(owner.pw_gid).gr_name
    return {"/PADDOCK-APACHE-MODULES": modules, "PADDOCK-USER": owner.pw_name, "PADDOCK-GROUP": group}


def account() -> pwd.struct_passwd:
    """Return the first account of ACCOUNTS that exists on this host. If the agent is root, servers of a test bed run as
    this account. Raise Refusal if none exists.
    """
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = next((known[name] for name in ACCOUNTS if name in known), None)
    if found is None:
        raise Refusal(
            "missing",
            ("this host has none of the accounts %s, which the web servers of a test bed can run as")
            % ", ".join(ACCOUNTS),
        )
    return found


def owner() -> Owner:
    """Return user id and group id of the account of the test bed's servers; None if the agent is not root."""
    if os.geteuid() != 0:
        return None
    found = account()
    return (found.pw_uid, found.pw_gid)


def pattern() -> bytes:
    """Return 1 MiB of data, the content of generated files. The data cannot be compressed, and is the same on every
    host.
    """
    parts, state = [], b"paddock"
    for _ in range(_BLOCK // 32):
        state = hashlib.sha256(state).digest()
        parts.append(state)
    return b"".join(parts)


def check(args: Dict[str, Any]) -> None:
    files, fill = args.get("files", []), args.get("fill", [])
    if not isinstance(files, list) or not isinstance(fill, list) or len(files) + len(fill) > MAX_FILES:
        raise Refusal("invalid", "files and fill are lists of at most %d files" % MAX_FILES)


def found() -> List[str]:
    """Return the paths of all test bed folders that this account has on the host, including those of
    running test beds.
    """
    root = safe.temporary_folder()
    names = sorted(name for name in os.listdir(root) if name.startswith(TESTBED_PREFIX))
    return [path for path in (os.path.join(root, name) for name in names) if _is_own(path)]


def _is_own(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.geteuid()
    except FileNotFoundError:
        return False


def sweep() -> List[str]:
    """Remove the test bed folders that killed agents left; return their paths."""
    gone = []
    base = os.open(safe.temporary_folder(), safe.FOLDER)
    try:
        for path in found():
            if _is_abandoned(os.path.basename(path), base):
                safe.remove_tree(os.path.basename(path), base)
                gone.append(path)
    finally:
        os.close(base)
    return gone


def _is_abandoned(name: str, base: int) -> bool:
    """Return whether a test bed's folder was left by an agent that no longer runs, because no agent holds its lock.

    A folder without a lock file is just being created or removed, and counts as abandoned only if it has not changed
    for LOCKLESS_S seconds.
    """
    try:
        folder = os.open(name, safe.FOLDER, dir_fd=base)
    except OSError:
        return False
    try:
        info = os.fstat(folder)
        if info.st_uid != os.geteuid():
            return False
        if ".lock" not in os.listdir(folder):
            return time.time() - info.st_mtime > LOCKLESS_S
        lock = os.open(".lock", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(lock)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
