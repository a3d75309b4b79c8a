"""The limit of open files of a process: each connected host takes three."""

from __future__ import annotations

import contextlib
import resource

FILES_PER_HOST = 3  # socket, and the ends of two pipes of the connection's thread
_MOST = 65_536  # more only makes some programs slow that try to close every number


def limit_raise() -> int:
    """Raise the soft limit of this process to its hard limit, and return it. Systems often begin with 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """The number of files that this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else soft


def most_hosts() -> int:
    """Hosts to which this process may keep idle connections: those that half of its files allow."""
    return max(8, limit() // 2 // FILES_PER_HOST)
