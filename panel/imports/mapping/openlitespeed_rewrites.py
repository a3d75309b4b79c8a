"""Map rewrite rules of an OpenLiteSpeed virtual host or .htaccess file to rewrites or try_files, or keep them as raw
directives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from panel.imports import litespeed
from panel.imports.htaccess import HTACCESS
from panel.imports.mapping import apache_rewrites
from panel.imports.mapping.apache_rewrites import Found
from panel.imports.nodes import Node
from panel.rendering.readers import Unreadable, apache

if TYPE_CHECKING:
    from panel.imports.mapping.openlitespeed_host import Host

_SAYS_NOTHING = ("enable", "loglevel", "autoloadhtaccess", "rules")
NO_LONGER = "the web server no longer reads .htaccess files; "
RULES = ("rewriterule", "rewritecond", "rewritebase", "rewriteengine", "rewritefile", "rewriteoptions")


def take(made: Host, node: Node) -> str | None:
    """Map a `rewrite` block or a .htaccess file. Return "" if mapped, "!note" if the site differs slightly, "-note" to
    drop it; other text is the reason to keep it as raw directives, None keeps it without a reason.
    """
    return _htaccess(made, node) if node.name == HTACCESS else _block(made, node)


def _block(made: Host, node: Node) -> str | None:
    body = node.body or ()
    files = [item for item in made.own if item.name == HTACCESS]
    if litespeed.says(body, "autoloadhtaccess") == "1":
        kept = f"!{NO_LONGER}{'their lines are listed below' if files else 'its document root contains none'}"
    else:
        kept = ""
    try:
        rules = _rules(body)
    except Unreadable as error:
        return f"-line {error.line} of the rewrite rules: {error.message}"
    if not rules:
        return kept
    if litespeed.says(body, "enable") != "1":
        return "!rewriting is off, so the rules have no effect, and Paddock leaves them out"
    if any(item.name not in _SAYS_NOTHING and item.name not in RULES for item in body):
        return kept[1:] or None  # keep raw
    found = apache_rewrites.found(rules, hands_back=True)
    if found.why or not _place(made, found):
        return kept[1:] or None  # keep raw
    return kept or (f"!{found.note}" if found.note else "")


def _rules(body: tuple[Node, ...]) -> list[Node]:
    """Return the rewrite rules of a `rewrite` block: the lines of its value `rules`, and rules written as its own
    directives.
    """
    text = "\n".join(
        item.value if item.name == "rules" else f"{item.name} {item.value}"
        for item in body
        if item.name == "rules" or item.name in RULES
    )
    return [Node(item.name, item.args, "", item.line, item.line) for item in apache.read(text)]


def _place(made: Host, found: Found) -> bool:
    """Add mapped rewrites and try_files to the site; return False if the rules have no equivalent in a site.

    In OpenLiteSpeed, the rules of a virtual host also apply to the paths of its contexts. In a site, try_files applies
    only to paths without another location. So try_files has no equivalent if there are contexts.
    """
    if found.try_files:
        if _has_contexts(made):
            return False
        everything = next((row for row in made.block["locations"] if row["pattern"] == "/"), made.block)
        everything["try_files"] = found.try_files
    if found.rewrites:
        made.block["rewrites"] = [*made.block.get("rewrites", []), *found.rewrites]
    return True


def _has_contexts(made: Host) -> bool:
    """Return whether the virtual host has contexts, except a context / that only serves files of the document root."""
    rows = made.block["locations"]
    plain = {row["pattern"] for row in rows if row["handler"] == "static" and "alias" not in row}
    return any(item.name == "context" and (item.value != "/" or "/" not in plain) for item in made.own)


def _htaccess(made: Host, node: Node) -> str | None:
    rules = [item for item in node.body or () if item.name.lower() in RULES]
    others = len(node.body or ()) - len(rules)
    ignored = f"; OpenLiteSpeed ignored the {others} other directives of the file" if others else ""
    if not any(item.name.lower() == "rewriterule" for item in rules):
        return "!the file has no effect because OpenLiteSpeed reads only rewrite rules in .htaccess files"
    if not apache_rewrites.is_on(rules):
        return f"!the rewrite engine is off in this file{ignored}"
    below = node.value.rstrip("/").removeprefix(made.documents.rstrip("/"))
    found = apache_rewrites.found(rules, hands_back=True, folder=f"{below}/")
    why = found.why or ("the rules also apply to contexts of the virtual host" if _has_contexts(made) else "")
    why = why or (
        "a site can check for existing files only on all paths, not in one folder" if below and found.try_files else ""
    )
    if why or not _place(made, found):
        return f"-sites do not support the rules of this file ({why}){ignored}"
    note = f"{'; ' + found.note if found.note else ''}"
    return f"!{NO_LONGER}the site now contains these rules{note}{ignored}"
