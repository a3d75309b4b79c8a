"""Putting an uploaded program in its place: checked by its digest, whole or not at all."""

from __future__ import annotations

import hashlib
import os

from agents.host import commands, paths, state, upgrade
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agents.host import lean
    from agents.host.operations import Emit

PART = 1 << 20


def run(args: dict[str, Any], emit: Emit, cancelled: lean.Event) -> dict[str, Any]:
    """{"source", "sha256", "path", "engine": its EngineControl or nothing} -> {"path", "installed": whether anything
    had to be done, "version": what the program answers to -v}. A server that runs from `path` is running the new
    program afterwards, or the old one, in place again, when the new one refuses its configuration or does not start.

    `source` is a file that the login uploaded; it is read once, into the place it shall have, and what was read is
    what is compared with `sha256`, so that nobody can exchange it in between.
    """
    wanted = args.get("sha256")
    path = paths.check_shape(args.get("path"))
    folder = os.path.realpath(os.path.dirname(path))
    path = os.path.join(folder, os.path.basename(path))
    installed = not (isinstance(wanted, str) and _digest(path) == wanted)
    if installed:
        with state.HostLock():
            os.makedirs(folder, 0o755, exist_ok=True)
            upgrade.sweep(path)
            draft = checked_copy(str(args.get("source")), path, str(wanted))
            upgrade.put(draft, path, args.get("engine"))
    said = commands.run([path, "-v"], timeout_s=10.0)
    if said.exit_code != 0:
        raise Refusal("failed", "%s does not run on this machine: %s" % (path, said.output))
    return {"path": path, "installed": installed, "version": said.output}


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


def checked_copy(source: str, path: str, wanted: str) -> str:
    """A copy beside `path` whose digest is `wanted`; its name. Refusal when it is another."""
    draft = os.path.join(os.path.dirname(path), ".%s.%d" % (os.path.basename(path), os.getpid()))
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise Refusal("missing", "the uploaded file cannot be read: %s" % error.strerror) from None
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(descriptor, "rb") as file, os.fdopen(os.open(draft, flags, 0o700), "wb") as sink:
        for part in iter(lambda: file.read(PART), b""):
            digest.update(part)
            sink.write(part)
        sink.flush()
        os.fchmod(sink.fileno(), 0o755)
        os.fsync(sink.fileno())
    if digest.hexdigest() != wanted:
        os.unlink(draft)
        raise Refusal("refused", "the uploaded file is not the one that was announced; upload it again")
    return draft
