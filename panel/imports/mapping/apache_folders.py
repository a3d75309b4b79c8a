"""`<Directory>` sections of a virtual host: which of its folders they are about."""

from __future__ import annotations

from panel.imports.mapping.apache_handlers import is_to_https
from panel.imports.mapping.apache_made import Host
from panel.imports.reading import Node
from panel.rendering.roots import is_below

BESIDE = "no path of this site leads there, and its own folders have sections of the panel's"
_LEAD = ("alias", "scriptalias")
_ANYWHERE = ("aliasmatch", "scriptaliasmatch", "userdir", "virtualdocumentroot", "virtualscriptalias")


def is_root(made: Host, node: Node) -> bool:
    """Whether it is about the document root itself."""
    return made.path(node.value) in map(made.path, made.values("documentroot"))


def options(node: Node) -> set[str]:
    """The words of its Options, in lower case and without +."""
    return {word.lstrip("+").lower() for item in node.body or () if item.low == "options" for word in item.args}


def is_served(made: Host, node: Node) -> bool:
    """Whether a path of the site may lead below that folder: then its section counts. Of / only what it allows does,
    since every folder of a site has a section that says the rest."""
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
