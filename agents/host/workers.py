"""Reject a main file if the web server's workers would run as root with it, and could serve every file of the host."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from agents.host import processes
from agents.host.errors import Refusal

if TYPE_CHECKING:
    from agents.host.request import Wanted

# nginx and gallop end the directive with a semicolon; Apache accepts #0 as the id; names may be quoted.
ROOT_ACCOUNT = {
    "nginx": rb"^[ \t]*user\s+[\"']?root\b",
    "native": rb"^[ \t]*user\s+[\"']?root\b",
    "apache": rb"^[ \t]*user\s+[\"']?(?:root\b|#0\b)",
    "openlitespeed": rb"^[ \t]*user\s+[\"']?root\b",
}


def names_root(engine: str, text: bytes) -> bool:
    """Return whether `text`, the content of a main file, sets root as the account of the web server's workers."""
    flags = re.MULTILINE | (re.IGNORECASE if engine == "apache" else 0)
    return re.search(ROOT_ACCOUNT[engine], text, flags) is not None


def refuse_root(files: list[Wanted], engines: list[dict[str, str]]) -> None:
    """Raise Refusal for a new main file in `files` with which workers would run as root.

    A file that already has this setting on the host may keep it: its admin decided so, and an unrelated change must not
    alter the account.
    """
    by_path = {wanted.path: wanted for wanted in files if wanted.action == "put"}
    for control in engines:
        wanted = by_path.get(os.path.realpath(control["main_config"]))
        if wanted is None or not names_root(control["engine"], wanted.content):
            continue
        if not names_root(control["engine"], processes.read(wanted.path)):
            raise Refusal(
                "refused",
                (
                    "with %s, the web server's workers would run as root and could read every file of the host. Enter "
                    "an account without permissions, such as nobody or www-data."
                )
                % wanted.named,
            )
