"""The folder of a stand: what the panel sent, and pages of a given size.

Everything lies below one new folder, whose name stands in the texts as /PADDOCK-STAND; other words stand for what
only the host knows: the account that servers run as, and where Apache's modules lie. An agent that was killed leaves
its folder; the next one sees that nobody holds its lock any more and removes it.
"""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import re
import shutil
import tempfile

from agents.host import install
from agents.host.errors import Refusal, no_space
from agents.host.paths import STAND_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

PLACE = "/PADDOCK-STAND"
MODULES = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/lib/httpd/modules")
ACCOUNTS = ("www-data", "apache", "nginx", "http", "nobody")
PROGRAMS = ("paddock-netem", "gallop-load")
MAX_FILES = 2000
MAX_FILL = 4 << 30
_SPARE = 256 << 20  # left free on the disk whatever is filled
_PATH = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,79}/){0,7}[A-Za-z0-9_][A-Za-z0-9._-]{0,79}\Z")
_BLOCK = 1 << 20


class Folder:
    """A private folder with a lock that tells the living from the dead."""

    def __init__(self) -> None:
        draft = tempfile.mkdtemp(prefix="." + STAND_PREFIX)
        os.chmod(draft, 0o755)  # noqa: S103 - workers run as other users
        self._lock = os.open(os.path.join(draft, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Held before it has the name that others look for: a sweep at this moment must not take it for a dead one.
        self.path = os.path.join(os.path.dirname(draft), os.path.basename(draft)[1:])
        os.rename(draft, self.path)

    def write(self, files: List[Dict[str, Any]], fill: List[Dict[str, Any]], folders: List[str]) -> None:
        """{"path", "text", "mode"}, {"path", "bytes"} and names of empty folders; Refusal when the disk is full."""
        try:
            for name in folders:
                os.makedirs(self._place(name), exist_ok=True)
            words = dict(_host_words(), **{PLACE: self.path})
            for item in files:
                text = str(item["text"])
                for word, true in words.items():
                    text = text.replace(word, true)
                self._put(str(item["path"]), text.encode(), int(item.get("mode", 0o644)))
            self._fill(fill)
        except OSError as error:
            raise no_space(error, self.path) from None

    def _fill(self, fill: List[Dict[str, Any]]) -> None:
        wanted = sum(int(item["bytes"]) for item in fill)
        free = shutil.disk_usage(self.path).free
        if wanted > MAX_FILL or wanted + _SPARE > free:
            raise Refusal(
                "failed",
                "the files to be served need %d MiB, and the disk with %s has %d MiB free (256 MiB are left alone); "
                "free some space, then run again" % (wanted >> 20, self.path, free >> 20),
            )
        block = pattern()
        for item in fill:
            left = int(item["bytes"])
            path = self._place(str(item["path"]))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                while left > 0:
                    file.write(block[: min(left, len(block))])
                    left -= len(block)

    def _put(self, name: str, content: bytes, mode: int) -> None:
        path = self._place(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode & 0o755)

    def _place(self, name: str) -> str:
        if not _PATH.match(name):
            raise Refusal("refused", "%r is not a plain path below the stand's folder" % name)
        return os.path.join(self.path, name)

    def programs(self, wanted: Dict[str, Dict[str, str]]) -> None:
        """Programs that were uploaded, checked, where nobody but the agent's account may exchange them."""
        for name, item in wanted.items():
            if name not in PROGRAMS:
                raise Refusal("refused", "%r is no program of a stand; there are %s" % (name, ", ".join(PROGRAMS)))
            path = self.program(name)
            os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
            os.rename(install.checked_copy(str(item.get("source")), path, str(item.get("sha256"))), path)

    def program(self, name: str) -> str:
        return os.path.join(self.path, ".bin", name)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _host_words() -> Dict[str, str]:
    modules = next((path for path in MODULES if os.path.isdir(path)), MODULES[0])
    owner = account()
    group = grp.getgrgid(owner.pw_gid).gr_name
    return {"/PADDOCK-APACHE-MODULES": modules, "PADDOCK-USER": owner.pw_name, "PADDOCK-GROUP": group}


def account() -> pwd.struct_passwd:
    """Whom the servers of a stand run as where the agent is root; Refusal when the host has none of those known."""
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    found = next((known[name] for name in ACCOUNTS if name in known), None)
    if found is None:
        raise Refusal("missing", "this host has none of the accounts %s for servers to run as" % ", ".join(ACCOUNTS))
    return found


def pattern() -> bytes:
    """One MiB that does not compress and is the same on every host: what files of a given size are made of."""
    import hashlib

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
    """Every stand's folder on this host, the living ones' too."""
    root = tempfile.gettempdir()
    return sorted(os.path.join(root, name) for name in os.listdir(root) if name.startswith(STAND_PREFIX))


def sweep() -> List[str]:
    """Removes the folders of agents that were killed; returns them."""
    gone = []
    for path in found():
        try:
            lock = os.open(os.path.join(path, ".lock"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue  # just being made, or just being removed
        except OSError:
            continue  # another account's
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path)
        finally:
            os.close(lock)
    return gone
