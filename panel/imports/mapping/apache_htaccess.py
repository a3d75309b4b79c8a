"""Map the directives of .htaccess files to rewrites, or to raw directives of the folder, with the same effect.

Once the site is deployed, the web server no longer reads these files
(https://httpd.apache.org/docs/2.4/howto/htaccess.html#when).
"""

from __future__ import annotations

from collections.abc import Sequence

from panel.imports.htaccess import READ
from panel.imports.mapping import apache_cgi, apache_rewrites
from panel.imports.mapping.apache_made import Host
from panel.imports.mapping.common import Draft
from panel.imports.nodes import Node
from panel.rendering.roots import is_below
from panel.websites.definitions import LocationData

NO_LONGER = "the web server no longer reads .htaccess files; "
UNREAD = (
    "AllowOverride: the web server will no longer read .htaccess files, and Paddock does not know their content in "
    "{folder}: {why}. Copy their lines into the site"
)
RULES = ("rewriterule", "rewritecond", "rewritebase", "rewriteengine", "rewriteoptions", "rewritemap")


def are_read(made: Host, folder: str) -> bool:
    """Return whether the .htaccess files of a folder were read with the virtual host."""
    roots = [node.value for node in made.own if node.name == READ]
    return any(is_below(root, (folder,)) or is_below(folder, (root,)) for root in roots)


def unread(made: Host, folder: str) -> str:
    """Return why the .htaccess directives of a folder are unknown; "" if they are known."""
    if not are_read(made, folder):
        return UNREAD.format(folder=folder, why="the folder is not part of the imported files")
    inside = [path for path in made.closed if is_below(path, (folder,))]
    if inside:
        more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        return UNREAD.format(folder=folder, why=f"Paddock could not read {inside[0]}{more}")
    return ""


def files_note(made: Host) -> str:
    """Return the note for a `<Directory>` section that enables .htaccess files: the web server no longer reads them."""
    files = sum(1 for node in made.own if node.name == "htaccess")
    return f"{NO_LONGER}{f'the lines of {files} found files are listed below' if files else 'its folders contain none'}"


def take(made: Host, node: Node) -> None:
    """Map one .htaccess file and record the outcome of each directive; `<IfModule>` is already evaluated."""
    body = node.body or ()
    if made.ended:
        for item in body:
            made.draft.note(
                item, "changed", "this directive has no effect because the site redirects every request", made.where
            )
        return
    rules = [item for item in body if item.low in RULES]
    rest = [item for item in body if item.low not in RULES]
    if rules and not _mapped(made, node, rules):
        rest = list(body)
    _raw(made, node, rest)


def _mapped(made: Host, node: Node, rules: Sequence[Node]) -> bool:
    """Map the rewrite rules of a .htaccess file; return False if sites cannot express them, or if the virtual host
    already has rewrites.
    """
    if not apache_rewrites.is_on(rules):
        for item in rules:
            made.draft.note(item, "changed", "the rewrite engine is off, so this directive has no effect", made.where)
        return True
    below = node.value.rstrip("/").removeprefix(made.root.rstrip("/"))
    found = apache_rewrites.found(rules, hands_back=True, folder=f"{below}/")
    taken = "try_files" in made.block or "rewrites" in made.block
    if found.why or not (found.rewrites or found.try_files) or taken or (below and found.try_files):
        return False
    if found.try_files and any(_answers_beside(row) for row in made.block["locations"]):
        return False
    made.rules(found.rewrites, found.try_files)
    for item in rules:
        note = found.note if apache_rewrites.passes_on(item) else ""
        made.draft.note(item, "changed" if note else "mapped", note, made.where)
    return True


def _answers_beside(row: LocationData) -> bool:
    """Return whether the location handles the prefix /. The try_files of the server block then has no effect on its
    paths.
    """
    return row["pattern"] == "/" and row["match"] in ("", "^~")


def _raw(made: Host, node: Node, items: Sequence[Node]) -> None:
    """Keep the directives `items` of a .htaccess file as raw directives, in one `<Directory>` section of its folder.
    Directives that sites must not contain are recorded as refused.
    """
    kept: list[Node] = []
    for said in items:
        item, lost = apache_cgi.without(said)
        for gone, reason in lost:
            made.draft.note(gone, "refused", reason, made.where)
        if item is None:
            continue
        tried = Draft(made.draft.web_server)
        tried.snippet({}, _section(node, [item]), made.where)
        if tried.items[0].outcome == "refused":
            made.draft.note(item, "refused", tried.items[0].note, made.where)
        else:
            kept.append(item)
            made.draft.note(item, "snippet", "in a section for the folder of the .htaccess file", made.where)
    if kept:
        made.draft.snippet(made.block, _section(node, kept), made.where)
        made.draft.items.pop()  # its lines have their own notes


def _section(node: Node, items: Sequence[Node]) -> Node:
    return Node("Directory", (node.value,), node.file, node.line, node.end, tuple(items))
