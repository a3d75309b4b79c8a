"""RewriteRule and RewriteCond of a virtual host, where they mean what the model's rewrites and redirects mean: all of a
virtual host's, or none, since their order counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from panel.imports.mapping.common import fits
from panel.imports.reading import Node
from panel.rendering import rewriting
from panel.rendering.spec import Rewrite
from panel.websites import shapes

_VARIABLES = {"%{HTTP_HOST}": "$http_host", "%{SERVER_NAME}": "$host", "%{REQUEST_SCHEME}": "$scheme"}
_LAST = {"L", "END", "PT"}
_CODES = {"R": "redirect", "R=302": "redirect", "R=TEMP": "redirect", "R=301": "permanent", "R=PERMANENT": "permanent"}


def rewrites_of(own: Sequence[Node]) -> tuple[list[dict[str, Any]], str]:
    """The model's rewrites, and why there are none, "" where there are."""
    rules = [node for node in own if node.low == "rewriterule"]
    if any(node.low == "rewritecond" for node in own):
        return [], "conditions have no place in the model"
    if not is_on(own):
        return [], "the engine is off, so they do nothing"
    found = []
    for node in rules:
        item = _rewrite(node)
        if item is None:
            return [], "this form has no place in the model"
        why = fits(shapes.validate_rewrites, [item]) or fits(lambda row: rewriting.check(Rewrite(**row), ""), item)
        if why:
            return [], why
        found.append(item)
    return found, ""


def is_on(own: Sequence[Node]) -> bool:
    said = [node.value.lower() for node in own if node.low == "rewriteengine"]
    return bool(said) and said[-1] == "on"


def _rewrite(node: Node) -> dict[str, str] | None:
    """One rule. A path that is not handed back to the choice of location ([PT]) names a file in Apache."""
    if len(node.args) != 3 or not node.args[2].startswith("["):
        return None
    pattern, target, flags = (
        node.args[0],
        node.args[1],
        {part.strip().upper() for part in node.args[2][1:-1].split(",")},
    )
    kinds = [_CODES[flag] for flag in flags if flag in _CODES]
    rest = flags - set(_CODES) - {*_LAST, "NC", "QSA", "QSD"}
    if rest or len(kinds) > 1 or not flags & _LAST or not pattern.startswith(("^/", "/")):
        return None
    if not kinds and ("PT" not in flags or not target.startswith("/")):
        return None
    for name, ours in _VARIABLES.items():
        target = target.replace(name, ours)
    if re.search(r"[%\\]|\$0|\$\{", target) or target == "-":
        return None
    if "NC" in flags:
        pattern = f"(?i){pattern}"
    drops = "QSD" in flags or ("?" in target and "QSA" not in flags)
    target = target if not drops or target.endswith("?") else f"{target}?"
    return {"pattern": pattern, "replacement": target, "flag": kinds[0] if kinds else "last"}


def always_holds(conditions: Sequence[Node], names: set[str], *, is_tls: bool) -> bool:
    """Whether a rule's conditions only say what brings a request to this virtual host: its names, as certbot writes
    them (`%{SERVER_NAME} =shop.example [OR]`), or that it is not encrypted."""
    asked: set[str] = set()
    for node in conditions:
        subject, test = (*node.args, "", "")[:2]
        if subject.upper() == "%{HTTPS}" and not is_tls:
            if test.lower() not in ("off", "=off", "!=on", "!on"):
                return False
        elif subject.upper() in ("%{SERVER_NAME}", "%{HTTP_HOST}") and test.startswith("="):
            asked.add(test[1:].lower())
        else:
            return False
    return not asked or (bool(names) and asked >= names)
