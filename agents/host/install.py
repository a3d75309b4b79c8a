"""Install an uploaded program: verify it by its digest, then replace the old program atomically."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from types import TracebackType
from typing import Any

from agents.host import commands, paths, safe, state, upgrade
from agents.host.errors import Refusal
from agents.host.operations import Emit

PART = 1 << 20


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Install or update one program.

    {"source", "sha256", "path", "engine": EngineControl of the server that runs the program, or nothing} -> {"path",
    "installed": whether anything was changed, "version": output of -v, "modules": optional features of gallop}.

    A server that runs from `path` runs the new program afterwards. If the new program rejects the server's
    configuration or does not start, the old program is restored and runs again. `source` is a file uploaded by the SSH
    account. The agent copies the file to its final folder and compares the copy with `sha256`, so nobody can replace
    the program after the check.
    """
    wanted = args.get("sha256")
    path = _place(paths.check_shape(args.get("path")))
    installed = not (isinstance(wanted, str) and _digest(path) == wanted)
    if installed:
        with state.HostLock(), Place(path) as place:
            place.sweep()
            draft = place.checked_copy(str(args.get("source")), str(wanted))
            upgrade.put(place, draft, args.get("engine"))
    said = commands.run([path, "-v"], timeout_s=10.0)
    if said.exit_code != 0:
        raise Refusal("failed", "%s does not run on this host: %s" % (path, said.output))
    named = args.get("engine")
    known = modules(path) if isinstance(named, dict) and named.get("engine") == "native" else []
    return {"path": path, "installed": installed, "version": said.output, "modules": known}


# Features of newer versions of gallop: name, and a directive that uses the feature.
_NEWER = (
    ("confine_files", "http { confine_files off; }"),
    ("acme_tls_challenges", "http { acme_tls_challenges /run; }"),
)


def modules(path: str) -> list[str]:
    """Return the names of the optional features in `_NEWER` that the gallop program at `path` supports. For each
    feature, the program tests a small configuration.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="paddock-asked-") as folder:
        config = os.path.join(folder, "asked.conf")
        for name, text in _NEWER:
            with open(config, "w", encoding="ascii") as file:
                file.write("pid %s/pid;\nerror_log stderr;\nevents {}\n%s\n" % (folder, text))
            if commands.run([path, "-t", "-p", folder, "-c", config], timeout_s=10.0).exit_code == 0:
                found.append(name)
    return found


def _place(path: str) -> str:
    """Return `path` with the symbolic links of its folder resolved; create missing folders. Raise Refusal if another
    account can replace files there, because the agent's account runs the program.
    """
    folder, name = os.path.split(path)
    missing = []
    while True:
        try:
            true = safe.true_path(folder)
            break
        except FileNotFoundError:
            folder, last = os.path.split(folder)
            missing.append(last)
    descriptor = os.open(true, safe.FOLDER)
    try:
        for part in reversed(missing):
            inner = safe.new_folder(part, descriptor, 0o755)
            os.close(descriptor)
            descriptor, true = inner, os.path.join(true, part)
    finally:
        os.close(descriptor)
    return os.path.join(true, name)


def _digest(path: str) -> str:
    try:
        descriptor = paths.open_file(path)
    except (FileNotFoundError, Refusal):
        return ""
    with os.fdopen(descriptor, "rb") as file:
        digest = hashlib.sha256()
        for part in iter(lambda: file.read(PART), b""):
            digest.update(part)
    return digest.hexdigest()


class Place:
    """Final path of an installed program, with an open descriptor of its folder. As a context manager, it raises
    Refusal if an account other than root and the agent's can change the folder.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.folder, self.name = os.path.split(path)
        self._descriptor = os.open(self.folder, safe.FOLDER)

    def __enter__(self) -> Place:
        try:
            safe.require_own(self._descriptor, self.folder)
        except Refusal:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._descriptor)

    def checked_copy(self, source: str, wanted: str) -> str:
        """Copy `source` next to the program and return the copy's name; raise Refusal if the copy's SHA-256 is not
        `wanted`.

        The source is in the upload folder of the SSH account, which could replace the file at any time.
        """
        draft = ".%s.%d" % (self.name, os.getpid())
        try:
            folder = os.open(os.path.dirname(source) or "/", os.O_PATH | os.O_DIRECTORY)
            try:
                descriptor = safe.open_regular(os.path.basename(source), folder, source)
            finally:
                os.close(folder)
        except OSError as error:
            raise Refusal("missing", "the uploaded file cannot be read: %s" % error.strerror) from None
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "rb") as file:
            safe.remove_tree(draft, self._descriptor)
            with os.fdopen(os.open(draft, safe.NEW, 0o700, dir_fd=self._descriptor), "wb") as sink:
                for part in iter(lambda: file.read(PART), b""):
                    digest.update(part)
                    sink.write(part)
                sink.flush()
                os.fchmod(sink.fileno(), 0o755)
                os.fsync(sink.fileno())
        if digest.hexdigest() != wanted:
            self.unlink(draft)
            raise Refusal("refused", "the uploaded file differs from the announced file; upload the file again")
        return draft

    def take(self, draft: str) -> None:
        """Replace the program by the verified copy `draft`, by renaming the copy."""
        os.rename(draft, self.name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        os.fsync(self._descriptor)

    def keep(self, former: str) -> None:
        """Give the existing program a second name, `former`, by a hard link."""
        os.link(self.name, former, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def sweep(self) -> None:
        """Delete copies of new programs, and old programs, that a killed agent left in the folder. The caller must hold
        the host's lock.
        """
        for entry in os.listdir(self._descriptor):
            rest = entry[len(self.name) + 2 :] if entry.startswith(".%s." % self.name) else ""
            if rest.partition(".")[0].isdigit():
                self.unlink(entry)
