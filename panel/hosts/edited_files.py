"""Edited files outside web servers: files that Paddock wrote and somebody changed on a host. The page of drift lists
them.

Apps whose files have a page and jobs of their own (PHP-FPM pools, keepalived) add a function to SOURCES when the panel
starts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass

from panel.accounts.models import User


@dataclass(frozen=True)
class EditedFile:
    """A file that Paddock wrote and somebody changed or deleted on a host. `owner` is the name of the PHP-FPM pool or
    virtual address to which the file belongs, `url` the page of this owner. `seen_at` is the time of the host's last
    report.
    """

    path: str
    host: str
    owner: str
    url: str
    seen_at: dt.datetime | None
    is_deleted: bool = False


SOURCES: list[Callable[[User], list[EditedFile]]] = []


def edited_files(user: User) -> list[EditedFile]:
    """Return the edited files that the user can see, from all functions in SOURCES, sorted by host and path."""
    found = [item for source in SOURCES for item in source(user)]
    return sorted(found, key=lambda item: (item.host, item.path))
