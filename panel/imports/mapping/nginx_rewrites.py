"""Map nginx's rewrites, all of a block or none, because their order relative to `if` and `set` matters."""

from __future__ import annotations

from collections.abc import Sequence

from panel.imports.mapping.common import fits
from panel.imports.reading import Node
from panel.rendering import rewriting
from panel.rendering.spec import Rewrite
from panel.websites import shapes
from panel.websites.definitions import RewriteData

OTHERS = ("if", "set", "break", "return")


def rewrites_of(own: Sequence[Node]) -> tuple[list[RewriteData], str]:
    """Return (rewrites, reason) for the directives of a server or location. `reason` is why sites cannot express the
    rewrites; "" if they can.
    """
    if others := sorted({node.name for node in own if node.name in OTHERS}):
        return [], f"sites do not keep the order of rewrite and {', '.join(others)}"
    found: list[RewriteData] = []
    for node in own:
        if node.name != "rewrite":
            continue
        if len(node.args) not in (2, 3):
            return [], "sites do not support this form of rewrite"
        pattern, replacement, flag = (*node.args, "")[:3]
        item: RewriteData = {"pattern": pattern, "replacement": replacement, "flag": flag}
        why = fits(shapes.validate_rewrites, [item])
        why = why or fits(lambda row: rewriting.check(Rewrite(**row), ""), item)
        if why:
            return [], why
        found.append(item)
    return found, ""
