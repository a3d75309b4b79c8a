"""Which managed files no longer hold what was deployed."""

from __future__ import annotations

from agents.host import digest, paths
from agents.host.changes import Found
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agents.host import lean
    from agents.host.operations import Emit

MAX_FILES = 200_000
MAX_SHOWN = 1024 * 1024


def run(args: dict[str, Any], emit: Emit, cancelled: lean.Event) -> dict[str, Any]:
    """{"files": [{"path", "sha256", "secret"}], "roots"} -> {"files": [{"path", "sha256", "content"}]}: those that
    differ, `sha256` as in FileChange.expect. The content of a secret file, and of what is not text, is left out."""
    files = args.get("files")
    if not isinstance(files, list) or len(files) > MAX_FILES:
        raise Refusal("invalid", "files is a list of at most %d entries" % MAX_FILES)
    roots = None if args.get("roots") is None else paths.resolve_roots(args["roots"])
    differing = []
    for item in files:
        if not isinstance(item, dict) or not isinstance(item.get("sha256"), str):
            raise Refusal("invalid", "each of files has a path and a sha256")
        named = paths.check_shape(item.get("path"))
        found = _looked_at(paths.resolve(named, roots) if roots is not None else named)
        if found[0] != item["sha256"]:
            content = "" if item.get("secret") else _shown(found[1])
            differing.append({"path": named, "sha256": found[0], "content": content})
    return {"files": differing}


def _looked_at(path: str) -> tuple[str, bytes]:
    found = Found(path)
    if found.kind != "file":
        return found.signature, b""
    content = found.read()
    return digest.of(content), content


def _shown(content: bytes) -> str:
    if len(content) > MAX_SHOWN:
        return ""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return ""
