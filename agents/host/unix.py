"""Connect to a Unix socket by its descriptor: symbolic links are not followed, and paths may be longer
than 107 bytes.
"""

from __future__ import annotations

import os
import socket
import stat

from agents.host import paths
from agents.host.errors import Refusal


def connected(path: str, timeout_s: float) -> socket.socket:
    """Connect to the Unix socket at `path`; return the connection. If the name comes to refer to another file during
    the call, the socket that was checked is used.

    Raises Refusal if the path is not a socket, FileNotFoundError if it is missing, OSError if the connection fails.
    """
    folder = paths.open_folder(os.path.dirname(path), os.O_PATH)
    try:
        held = os.open(os.path.basename(path), os.O_PATH | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(held).st_mode):
            raise Refusal("refused", "%s is not a Unix socket" % path, path=path)
        stream.settimeout(timeout_s)
        stream.connect("/proc/self/fd/%d" % held)
    except BaseException:
        stream.close()
        raise
    finally:
        os.close(held)
    return stream
