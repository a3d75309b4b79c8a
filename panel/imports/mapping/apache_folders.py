"""Map the `<Directory>` sections of an Apache virtual host, depending on whether its site serves their folders."""

from __future__ import annotations

from panel.imports.mapping import apache_htaccess, apache_rewrites
from panel.imports.mapping.apache_handlers import is_to_https
from panel.imports.mapping.apache_made import Host
from panel.imports.reading import Node
from panel.rendering.roots import is_below

BESIDE = "no path of this site uses this folder, and Paddock writes its own sections for the site's folders"
PLAIN = {"indexes", "followsymlinks", "multiviews", "-indexes", "none", "symlinksifownermatch", "-multiviews"}
_SIMPLE = ("options", "require", "allowoverride", "order", "allow")
_LEAD = ("alias", "scriptalias")
_ANYWHERE = ("aliasmatch", "scriptaliasmatch", "userdir", "virtualdocumentroot", "virtualscriptalias")


def is_root(made: Host, node: Node) -> bool:
    """Return whether a `<Directory>` section is for the document root itself."""
    return made.path(node.value) in map(made.path, made.values("documentroot"))


def options(node: Node) -> set[str]:
    """Return the words of the Options directives in a section, in lower case and without +."""
    return {word.lstrip("+").lower() for item in node.body or () if item.low == "options" for word in item.args}


def is_served(made: Host, node: Node) -> bool:
    """Return whether a `<Directory>` section affects the site: a path of the site can lead to a file below its folder.

    The section for / counts only if it has the option Indexes, or other directives than Options and AllowOverride.
    Every folder of a site has a section of its own with these two.
    """
    folder = made.path(node.value)
    if folder == "/":
        grants = {item.low for item in node.body or ()} - {"options", "allowoverride"}
        return bool(grants) or "indexes" in options(node)
    roots = [made.path(value) for value in made.values("documentroot")]
    if any(is_below(root, (folder,)) or is_below(folder, (root,)) for root in roots):
        return True
    everything = (*made.own, *made.around)
    if any(item.low in _ANYWHERE or (item.low == "rewriterule" and not is_to_https(item)) for item in everything):
        return True
    led = [made.path(item.args[1]) for item in everything if item.low in _LEAD and len(item.args) == 2]
    return any(is_below(path, (folder,)) or is_below(folder, (path,)) for path in led)


def directory(made: Host, node: Node) -> str | None:
    """Map a `<Directory>` section if it equals the panel's own section or sites can express its settings. Return "" if
    mapped, "!note" if the site differs slightly, "-reason" to drop the section; other text is the reason to keep it as
    raw directives, None keeps it without a reason.
    """
    overrides = [item for item in node.body or () if item.low == "allowoverride" and item.value.lower() != "none"]
    if overrides and (unknown := apache_htaccess.unread(made, made.path(node.value))):
        return f"-{unknown}"
    files = apache_htaccess.files_note(made) if overrides else ""
    rules = [item for item in node.body or () if item.low in apache_htaccess.RULES]
    rest = [item for item in node.body or () if item not in rules]
    if len(node.args) != 1 or not all(_is_plain(item) for item in rest) or options(node) - PLAIN:
        return files or None
    if not is_root(made, node):
        beside = "" if rules or is_served(made, node) else BESIDE
        return f"!{beside}" if beside else files or None
    if rules and not _ruled(made, rules):
        return files or None
    made.block["autoindex"] = "indexes" in options(node)
    guessed = "the web server no longer completes file names (MultiViews)"
    notes = [guessed] if "multiviews" in options(node) else []
    notes += [files] if files else []
    return f"!{'; '.join(notes)}" if notes else ""


def _is_plain(item: Node) -> bool:
    """Return whether a directive is compatible with the panel's own `<Directory>` section, in which it needs no
    equivalent: `Require all granted`, or Options, AllowOverride, Order, or Allow.
    """
    if item.low == "require":
        return item.args == ("all", "granted")
    return item.low in _SIMPLE and item.args != ("all", "denied")


def _ruled(made: Host, rules: list[Node]) -> bool:
    """Map rewrite rules in the `<Directory>` of the document root; return False if sites cannot express the rules. Such
    rules often send requests for missing files to an application.
    """
    if not apache_rewrites.is_on(rules):
        return True
    found = apache_rewrites.found(rules, hands_back=True, folder="/")
    has_own = any(row["pattern"] == "/" for row in made.block["locations"])
    if found.why or not (found.rewrites or found.try_files) or has_own or {"rewrites", "try_files"} & set(made.block):
        return False
    made.rules(found.rewrites, found.try_files)
    return True
