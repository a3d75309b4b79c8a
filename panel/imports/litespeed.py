"""Assemble OpenLiteSpeed's virtual hosts as the server does: with their own files, from templates, and with the
.htaccess files of their document roots. The functions read no files themselves: the loader does.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from panel.imports.htaccess import nodes_of
from panel.imports.nodes import Node

if TYPE_CHECKING:
    from panel.imports.reading import Loader
    from panel.rendering.readers import Read

_BELOW = (".htaccess", "*/.htaccess", "*/*/.htaccess")


def expanded(value: str, names: Mapping[str, str]) -> str:
    """Return a path with each variable `$NAME`, in any case, replaced by its value in `names`
    (ConfigCtx::expandVariable in src/main/configctx.cpp).
    """
    for name, real in names.items():
        value = re.sub(re.escape(f"${name}"), lambda _match, real=real: real.rstrip("/"), value, flags=re.I)  # type: ignore[misc]
    return re.sub(r"(?<!:)/{2,}", "/", value)


def says(body: Sequence[Node], name: str) -> str:
    """Return the value of the first directive `name` in the body of a block; "" without such a directive."""
    return next((item.value for item in body if item.name == name), "")


def folders(node: Node, prefix: str) -> tuple[str, str]:
    """Return the root (vhRoot) and the document root (docRoot) of a virtual host."""
    body, names = node.body or (), {"SERVER_ROOT": prefix, "VH_NAME": node.value}
    root = posixpath.normpath(posixpath.join(prefix, expanded(says(body, "vhroot"), names)))
    documents = expanded(says(body, "docroot") or "$VH_ROOT", {**names, "VH_ROOT": root})
    return root, posixpath.normpath(posixpath.join(root, documents))


def completed(loader: Loader, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes of an OpenLiteSpeed configuration with complete virtual hosts. Each member of a template becomes
    a virtual host after the template.
    """
    found: list[Node] = []
    everywhere = says(nodes, "autoloadhtaccess") == "1"
    for node in nodes:
        if node.name == "virtualhost" and node.body is not None:
            found.append(_with_htaccess(loader, _with_own_file(loader, node), everywhere))
        else:
            found.append(node)
        if node.name == "vhtemplate":
            found += [_with_htaccess(loader, host, everywhere) for host in _members(loader, node)]
    return tuple(found)


def _own(loader: Loader, node: Node, path: str) -> list[Node]:
    """Return the nodes in the file `path`, to which the directive `node` refers; record a fault if the file does not
    exist.
    """
    found = loader.find(path)
    if not found:
        loader.fault(node.file, node.line, f"the file {path} does not exist")
    return [inner for file in found for inner in loader.file(file, (*node.via, (node.file, node.line)))]


def _with_own_file(loader: Loader, node: Node) -> Node:
    body = node.body or ()
    value = says(body, "configfile")
    if not value:
        return node
    root, _documents = folders(node, loader.prefix)
    path = expanded(value, {"SERVER_ROOT": loader.prefix, "VH_NAME": node.value, "VH_ROOT": root})
    path = posixpath.normpath(posixpath.join(loader.prefix, path))
    return replace(node, body=(*body, *_own(loader, node, path)))


def _members(loader: Loader, node: Node) -> Iterator[Node]:
    """Yield the virtual hosts of a template, one per member; a member's settings take precedence over
    the template's.
    """
    body = node.body or ()
    value = expanded(says(body, "templatefile"), {"SERVER_ROOT": loader.prefix})
    if not value:
        return
    template = _own(loader, node, posixpath.normpath(posixpath.join(loader.prefix, value)))
    around = [item for item in template if item.name not in ("virtualhostconfig", "configfile")]
    inside = [child for item in template if item.name == "virtualhostconfig" for child in item.body or ()]
    listeners = [item for item in body if item.name == "listeners"]
    for member in body:
        if member.name == "member" and member.value:
            own = list(member.body or ())
            if not says(own, "vhdomain"):
                own.append(replace(member, name="vhdomain", body=None))
            said = {item.name for item in own}
            rest = [item for item in (*around, *inside) if item.name not in said & {"vhroot", "vhdomain", "vhaliases"}]
            mark = replace(member, body=None)  # maps in listeners are read before members exist, so none applies
            yield replace(member, name="virtualhost", body=(mark, *own, *listeners, *rest))


def _with_htaccess(loader: Loader, node: Node, everywhere: bool) -> Node:
    """Return a virtual host with the .htaccess directives of its document root and of folders up to two levels below
    it, if the server reads such files.
    """
    rewrite = next((item.body or () for item in node.body or () if item.name == "rewrite"), None)
    if rewrite is None or (says(rewrite, "autoloadhtaccess") or str(int(everywhere))) != "1":
        return node  # a virtual host without its own block has no such files (HttpVHost::configRewrite)
    _root, documents = folders(node, loader.prefix)
    files = [file for pattern in _BELOW for file in loader.find(posixpath.join(documents, pattern))]
    return replace(node, body=(*(node.body or ()), *nodes_of(loader, files, _flat)))


def _flat(items: Sequence[Read], path: str) -> Iterator[Node]:
    """Yield the directives of a .htaccess file, including those inside of sections. OpenLiteSpeed applies such
    directives as if no section were around them. Sections that test for mod_headers are omitted.
    """
    for item in items:
        if item.body is None:
            yield Node(item.name, item.args, path, item.line, max(item.line, item.end))
        elif "mod_headers" not in " ".join(item.args):
            yield from _flat(item.body, path)
