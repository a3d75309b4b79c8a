"""What crossplane, a parser that is not ours, reads in nginx's configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import crossplane

from panel.rendering.readers import Read, nginx

ESCAPE = re.compile(r"\\([\"'\\trn])")
_NAMES = {"t": "\t", "r": "\r", "n": "\n"}


def crossplane_words(text: str) -> list[list[str]]:
    """Every directive's words as crossplane reads them, with the escapes that it leaves in place taken out."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "site.conf"
        path.write_text(text)
        parsed = crossplane.parse(str(path), single=True, check_ctx=False, check_args=False)
    assert parsed["status"] == "ok", parsed["errors"]
    found: list[list[str]] = []

    def walk(items: list[dict[str, Any]]) -> None:
        for item in items:
            words = [item["directive"], *item["args"]]
            found.append([ESCAPE.sub(lambda hit: _NAMES.get(hit[1], hit[1]), text) for text in words])
            walk(item.get("block", []))

    walk(parsed["config"][0]["parsed"])
    return found


def words(items: Iterable[Read]) -> list[list[str]]:
    """The same of what our own reader read."""
    return [found for item in items for found in ([item.name, *_args(item)], *words(item.body or ()))]


def _args(item: Read) -> list[str]:
    """Arguments without the parentheses around the condition of `if`, which crossplane takes out."""
    if item.name != "if":
        return list(item.args)
    condition = list(item.args)
    condition[0] = condition[0].removeprefix("(")
    condition[-1] = condition[-1].removesuffix(")")
    return condition


def disagreement(batch: list[tuple[str, list[str]]]) -> list[str]:
    """Of (value, files) pairs, those whose files crossplane reads otherwise than our own reader."""
    if _agree("".join(text for _, files in batch for text in files)):
        return []
    return [f"{value!r}: crossplane reads it otherwise" for value, files in batch if not _agree("".join(files))]


def _agree(text: str) -> bool:
    try:
        return crossplane_words(text) == words(nginx.read(text))
    except AssertionError:
        return False
