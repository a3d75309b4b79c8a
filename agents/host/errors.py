"""Exceptions for errors that the agent reports to the panel."""

from __future__ import annotations

import errno
import os
from typing import Any


class Refusal(Exception):
    """Exception for a refused operation. `code` is one of those in agents/protocol.py; `detail` has further data.

    The message names the object, the problem and the solution, and never contains a file's content.
    """

    def __init__(self, code: str, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


class Cancelled(Refusal):
    """Exception for a request that the panel cancelled before anything was changed."""

    def __init__(self, message: str = "the deployment was cancelled before anything was changed") -> None:
        super().__init__("cancelled", message)


NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class NoSpace(OSError):
    """Error for a full disk, with the path and the number of bytes needed."""

    def __init__(self, code: int, path: str, needed: int) -> None:
        super().__init__(code, os.strerror(code), path)
        self._needed = needed

    def __str__(self) -> str:
        path = str(self.filename)
        words = "%s: %s needs %d bytes and an inode" % (self.strerror, path, self._needed)
        try:
            info = os.statvfs(os.path.dirname(path))
        except OSError:
            return words + ". Free some space, then deploy again."
        words += "; %d bytes" % (info.f_bavail * info.f_frsize)
        if info.f_files:  # some file systems have no inode limit
            words += " and %d inodes" % info.f_favail
        return words + " are free. Free some space, then deploy again."


def named(error: OSError, path: str, needed: int) -> OSError:
    """Return a NoSpace with `path` and `needed`, the number of bytes to write, if `error` reports a full disk or an
    exhausted quota. Return any other error unchanged.
    """
    if error.errno in NO_SPACE and not isinstance(error, NoSpace):
        return NoSpace(error.errno, path, needed)
    return error


def no_space(error: OSError, place: str) -> Exception:
    """Return a Refusal that names `place`, a path on the full disk, if `error` reports a full disk or an exhausted
    quota. Return any other error unchanged.
    """
    if error.errno not in NO_SPACE:
        return error
    return Refusal("failed", "the disk with %s is full; free some space, then run again" % place)
