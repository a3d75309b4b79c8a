"""Limit of the number of open files of a process. Each connected host takes three open files."""

from __future__ import annotations

import contextlib
import resource

FILES_PER_HOST = 3  # a socket, and both ends of the pipe of the connection's thread
_MOST = 65_536  # with a higher limit, programs that close every possible descriptor become slow


def limit_raise() -> int:
    """Raise the soft limit of open files to the hard limit, but not above _MOST; return the new limit. The usual soft
    limit is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """Return the number of files that this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else soft


def most_hosts() -> int:
    """Return the number of hosts to which this process may keep idle connections.

    These connections use at most half of the files that the process may have open.
    """
    return max(8, limit() // 2 // FILES_PER_HOST)
