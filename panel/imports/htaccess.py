"""Add the directives of Apache's .htaccess files, if its configuration enables them, to the virtual hosts of their
folders. The functions read no files themselves: the loader does.

AllowOverride of the longest `<Directory>` that contains the document root decides whether the files apply
(https://httpd.apache.org/docs/2.4/mod/core.html#allowoverride; without any, the value is None).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from panel.imports.nodes import Node, SourceFile
from panel.rendering.readers import Read, Unreadable, apache
from panel.rendering.roots import is_below

if TYPE_CHECKING:
    from panel.imports.reading import Loader

HTACCESS = "htaccess"  # name of the node with the directives of such a file
READ = "htaccess-read"  # name of the node that marks a completed search
Within = Callable[[Sequence[Read], str], Iterator[Node]]  # from parsed directives and a path to the nodes that apply
DEEPEST = 4  # depth below the document root to which files are searched


def completed(loader: Loader, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes of an Apache configuration with .htaccess directives added to their virtual hosts."""
    everywhere = list(_directories(nodes))
    return tuple(_within(loader, node, everywhere) for node in nodes)


def _within(loader: Loader, node: Node, everywhere: Sequence[Node]) -> Node:
    if node.body is None:
        return node
    if node.low != "virtualhost":
        return replace(node, body=tuple(_within(loader, child, everywhere) for child in node.body))
    roots = [child.value for child in node.all() if child.low == "documentroot" and child.value]
    if not roots:
        return node
    root = posixpath.normpath(posixpath.join(loader.prefix, roots[-1]))
    allowed = allows([*everywhere, *_directories(node.body)], root, loader.prefix)
    if not allowed or not is_below(root, loader.documents):
        return node
    patterns = [posixpath.join(root, *["*"] * depth, ".htaccess") for depth in range(DEEPEST + 1)]
    files = [file for pattern in patterns for file in loader.find(pattern)]
    mark = Node(READ, (root,), node.file, node.line, node.line)
    return replace(node, body=(*node.body, mark, *nodes_of(loader, files, _with_sections)))


def _directories(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield the `<Directory>` sections in `nodes`, at any depth, but not those inside of virtual hosts."""
    for node in nodes:
        if node.low == "directory":
            yield node
        elif node.body is not None and node.low != "virtualhost":
            yield from _directories(node.body)


def allows(sections: Sequence[Node], root: str, prefix: str) -> bool:
    """Return whether .htaccess files in `root` apply.

    Of the `<Directory>` sections with AllowOverride that contain `root`, the one with the longest path decides; of two
    with the same path, the later one.
    """
    found = (-1, "none")
    for section in sections:
        path = posixpath.normpath(posixpath.join(prefix, section.value))
        said = [word.lower() for item in section.body or () if item.low == "allowoverride" for word in item.args]
        if said and "*" not in path and is_below(root, (path,)) and len(path) >= found[0]:
            found = (len(path), " ".join(said))
    return found[1] != "none"


def nodes_of(loader: Loader, files: Iterable[SourceFile], within: Within) -> Iterator[Node]:
    """Yield a node for each .htaccess file. The node's body is the result of `within` for the directives and the path
    of the file. A file that cannot be parsed is recorded as a fault in `loader` instead.
    """
    for file in files:
        try:
            found = apache.read(file.text)
        except Unreadable as error:
            loader.fault(file.path, error.line, error.message)
            continue
        lines = file.text.count("\n") + 1
        yield Node(HTACCESS, (posixpath.dirname(file.path),), file.path, 1, lines, tuple(within(found, file.path)))


def _with_sections(items: Sequence[Read], path: str) -> Iterator[Node]:
    for item in items:
        body = None if item.body is None else tuple(_with_sections(item.body, path))
        yield Node(item.name, item.args, path, item.line, max(item.line, item.end), body)
