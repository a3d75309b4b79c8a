"""The last lines of a log on a host, through its agent: no shell, and only below the folders that are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from panel.hosts.models import Host
from panel.hosts.targets import target_for
from panel.remote import pool

TIMEOUT_S = 8.0


@dataclass(frozen=True)
class Log:
    """A log to choose: `key` names it in an address, so that no path ever stands in one."""

    key: str
    label: str
    path: str


def log_tail(host: Host, path: str, *, roots: Sequence[str], lines: int = 200) -> list[str]:
    """At most `lines` whole lines from the end of `path`, which must lie below one of `roots` on the host.

    Raises RemoteError, with the host's own words when it refuses; Conflict when its key changed.
    """
    with pool.session(target_for(host)) as session:
        answer = session.call("tail", {"path": path, "roots": list(roots), "lines": lines}, timeout=TIMEOUT_S)
    found: list[str] = answer["lines"]
    return found
