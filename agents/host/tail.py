"""Operation `tail`: return the last lines of a log, and stream new lines while a user watches."""

from __future__ import annotations

import os
import threading
from typing import Any

from agents.host import paths
from agents.host.errors import Refusal
from agents.host.operations import Emit

MAX_LINES = 5000
MAX_BYTES = 2 * 1024 * 1024
MAX_LINE = 16 * 1024
POLL_S = 0.25


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Return the last lines of a log as {"lines"}. With `follow`, send {"lines"} with these lines as an event, and more
    events with new lines until the request is cancelled.

    Following continues through rotation: a new file of the same name is read from its start.
    """
    path = paths.resolve(args.get("path"), paths.resolve_roots(args.get("roots")))
    wanted = args.get("lines", 100)
    if not isinstance(wanted, int) or not 0 <= wanted <= MAX_LINES:
        raise Refusal("invalid", "lines is a whole number from 0 to %d" % MAX_LINES)
    try:
        descriptor = paths.open_file(path)
    except FileNotFoundError:
        raise Refusal("missing", "the log %s does not exist" % path, path=path) from None
    follow = bool(args.get("follow"))
    try:
        lines = last_lines(descriptor, wanted)
        if follow:
            emit({"lines": lines})
            _follow(path, descriptor, emit, cancelled)
    finally:
        os.close(descriptor)
    return {"lines": [] if follow else lines}


def last_lines(descriptor: int, wanted: int) -> list[str]:
    """Return at most `wanted` lines from the end of an open file, and set the file position to its end."""
    size = os.fstat(descriptor).st_size
    begin = max(0, size - MAX_BYTES)
    os.lseek(descriptor, begin, os.SEEK_SET)
    data = b""
    while len(data) < size - begin:
        part = os.read(descriptor, size - begin - len(data))
        if not part:
            break
        data += part
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if begin and lines:
        lines.pop(0)  # incomplete
    return [_text(line) for line in lines[max(0, len(lines) - wanted) :]]


def _text(line: bytes) -> str:
    return line[:MAX_LINE].decode("utf-8", "replace")


def _follow(path: str, descriptor: int, emit: Emit, cancelled: threading.Event) -> None:
    rest = b""
    while not cancelled.is_set():
        data = os.read(descriptor, 256 * 1024)
        if data:
            rest += data
            whole, newline, rest = rest.rpartition(b"\n")
            if newline:
                emit({"lines": [_text(line) for line in whole.split(b"\n")]})
            rest = rest[-MAX_LINE:]
            continue
        _renew(path, descriptor)
        cancelled.wait(POLL_S)


def _renew(path: str, descriptor: int) -> None:
    """Let the descriptor refer to the new file at `path` if the log was rotated. If it was truncated, continue at the
    start of the file.
    """
    try:
        folder = paths.open_folder(os.path.dirname(path), os.O_PATH)
    except (FileNotFoundError, Refusal):
        return
    try:
        now = os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    finally:
        os.close(folder)
    held = os.fstat(descriptor)
    if (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino):
        if now.st_size < os.lseek(descriptor, 0, os.SEEK_CUR):
            os.lseek(descriptor, 0, os.SEEK_SET)
        return
    try:
        opened = paths.open_file(path)
    except (FileNotFoundError, Refusal):
        return
    # Keeps the number, so that the caller that opened it also closes it.
    os.dup2(opened, descriptor, inheritable=False)
    os.close(opened)
