"""Operation `drift`: report managed files whose content differs from the content that was deployed."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any

from agents.host import paths, recover, state
from agents.host.changes import Found
from agents.host.errors import Refusal
from agents.host.operations import Emit

MAX_FILES = 200_000
MAX_SHOWN = 1024 * 1024
MAX_SHOWN_TOTAL = 4 * 1024 * 1024  # beyond this total, content is left out


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Compare files with their expected digests, and return those that differ.

    {"files": [{"path", "sha256", "secret"}], "roots"} -> {"files": [{"path", "sha256", "content"}]}. In the result,
    "sha256" has the form of FileChange.expect, and "content" is "" for secret, binary and large files.
    """
    files = args.get("files")
    if not isinstance(files, list) or len(files) > MAX_FILES:
        raise Refusal("invalid", "files is a list of at most %d entries" % MAX_FILES)
    roots = None if args.get("roots") is None else paths.resolve_roots(args["roots"])
    _settle()
    differing = []
    left = MAX_SHOWN_TOTAL
    for item in files:
        if not isinstance(item, dict) or not isinstance(item.get("sha256"), str):
            raise Refusal("invalid", "each of files has a path and a sha256")
        named = paths.check_shape(item.get("path"))
        found = _looked_at(paths.resolve(named, roots) if roots is not None else named)
        if found[0] != item["sha256"]:
            content = "" if item.get("secret") or len(found[1]) > left else _shown(found[1])
            left -= len(content)
            differing.append({"path": named, "sha256": found[0], "content": content})
    return {"files": differing}


def _settle() -> None:
    """Finish or undo an interrupted transaction, because its incomplete changes would look like edits by a person."""
    if not os.path.lexists(state.folder() + "/open"):
        return

    try:
        with state.HostLock(wait_s=0):
            recover.repair()
    except (Refusal, OSError):
        # the transaction is running or cannot be repaired, which `recover` reports; the current files are reported
        return


def _looked_at(path: str) -> tuple[str, bytes]:
    found = Found(path)
    if found.kind != "file":
        return found.signature, b""
    content = found.read()
    return hashlib.sha256(content).hexdigest(), content


def _shown(content: bytes) -> str:
    if len(content) > MAX_SHOWN:
        return ""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return ""
