"""Connecting to a Unix socket by descriptors: no link is followed, and the path may be longer than sockets' are."""

from __future__ import annotations

import os
import socket
import stat

from agents.host import paths
from agents.host.errors import Refusal


def connected(path: str, timeout_s: float) -> socket.socket:
    """A connection to the very socket that was looked at, whatever has its name by now. Refusal when it is none;
    FileNotFoundError, OSError."""
    folder = paths.open_folder(os.path.dirname(path), os.O_PATH)
    try:
        held = os.open(os.path.basename(path), os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(held).st_mode):
            raise Refusal("refused", "%s is not a socket" % path, path=path)
        stream.settimeout(timeout_s)
        stream.connect("/proc/self/fd/%d" % held)
    except BaseException:
        stream.close()
        raise
    finally:
        os.close(held)
    return stream
