"""Read a configuration with all included files as one tree; each server's exact grammar is used.

A `Find` function returns files by path or pattern, of a host or an upload. Parts that cannot be parsed become a Fault
with file and line; everything else is still read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from panel.imports import htaccess, litespeed
from panel.imports.nodes import Fault, Loaded, Node, SourceFile
from panel.rendering.readers import Read, Unreadable
from panel.rendering.readers.engines import READERS

__all__ = ["Fault", "Find", "Loaded", "Loader", "Node", "SourceFile", "apache_variables", "is_pattern"]

MAX_DEPTH = 16  # of includes
MAX_NESTING = 50  # of blocks
MAX_FILES = 5000  # a file that is included twice counts twice
MAX_TOTAL_BYTES = 16 * 1024 * 1024
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


Find = Callable[[str], list[SourceFile]]


def apache_variables(envvars: str) -> dict[str, str]:
    """Return the variables that Debian's `envvars`, a shell script, sets for Apache by plain assignments."""
    found: dict[str, str] = {"SUFFIX": ""}
    for match in re.finditer(r"^\s*(?:export\s+)?(\w+)=([^\s;#]*)", envvars, re.MULTILINE):
        value = match[2].strip("\"'")
        found[match[1]] = re.sub(r"\$\{?(\w+)\}?", lambda inner: found.get(inner[1], ""), value)
    return found


def _is_too_deep(found: tuple[Read, ...]) -> bool:
    """Return whether blocks are nested more than MAX_NESTING deep. The function is not recursive, because such a tree
    would exceed Python's recursion limit.
    """
    level = list(found)
    for _depth in range(MAX_NESTING):
        level = [inner for item in level for inner in item.body or ()]
    return bool(level)


def is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


class Loader:
    """Reader of one configuration; the result and all faults are in `loaded`.

    `prefix` is the server's root; `variables` are values for Apache's `${NAME}`; `documents` are the folders whose
    .htaccess files are accessible.
    """

    def __init__(
        self,
        engine: str,
        find: Find,
        prefix: str,
        variables: dict[str, str] | None = None,
        documents: tuple[str, ...] = (),
    ) -> None:
        self.engine = engine
        self.find = find
        self.prefix = prefix
        self.variables = dict(variables or {})
        self.documents = documents
        self.loaded = Loaded()
        self._bytes = self._reads = 0

    def load(self, main: str) -> Loaded:
        found = self.find(main)
        if not found:
            self.fault(main, 0, "the main file does not exist")
        nodes = tuple(node for file in found for node in self.file(file, ()))
        complete = _COMPLETE.get(self.engine)
        self.loaded.nodes = complete(self, nodes) if complete else nodes
        return self.loaded

    def load_file(self, file: SourceFile) -> Loaded:
        """Read one file alone, as a fragment of a configuration."""
        self.loaded.nodes = tuple(self.file(file, ()))
        return self.loaded

    def fault(self, file: str, line: int, message: str) -> None:
        self.loaded.faults.append(Fault(file, line, message))

    def file(self, file: SourceFile, via: tuple[tuple[str, int], ...]) -> list[Node]:
        self._bytes += len(file.text)
        self._reads += 1
        known = self.loaded.files
        if self._reads > MAX_FILES or self._bytes > MAX_TOTAL_BYTES:
            self.fault(file.path, 0, "Paddock skips this file because the configuration is too large")
            return []
        known[file.path] = file
        found: tuple[Read, ...] | None
        try:
            found = READERS[self.engine](file.text)
        except Unreadable as error:
            self.fault(file.path, error.line, error.message)
            return []
        except RecursionError:
            found = None
        if found is None or _is_too_deep(found):
            self.fault(
                file.path,
                0,
                f"Paddock leaves this file out because its blocks are nested more than {MAX_NESTING} levels deep",
            )
            return []
        return self._nodes(found, file.path, via)

    def _nodes(self, found: tuple[Read, ...], path: str, via: tuple[tuple[str, int], ...]) -> list[Node]:
        nodes: list[Node] = []
        for item in found:
            args = tuple(self._expanded(value) for value in item.args) if self.engine == "apache" else item.args
            body = None if item.body is None else tuple(self._nodes(item.body, path, via))
            node = Node(item.name, args, path, item.line, max(item.line, item.end), body, via)
            if node.low in ("include", "includeoptional") and body is None:
                nodes += self._included(node)
            else:
                self._define(node)
                nodes.append(node)
        return nodes

    def _define(self, node: Node) -> None:
        if self.engine == "apache" and node.low == "define" and node.args:
            self.variables[node.args[0]] = node.args[1] if len(node.args) > 1 else ""

    def _expanded(self, value: str) -> str:
        """Replace each `${NAME}` by the value of the variable, as httpd does. Unknown variables stay as written."""
        return _VARIABLE.sub(lambda match: self.variables.get(match[1], match[0]), value)

    def _base(self, node: Node) -> str:
        return posixpath.dirname(node.file) if self.engine == "openlitespeed" else self.prefix

    def _included(self, node: Node) -> list[Node]:
        pattern = node.value.replace("$SERVER_ROOT", self.prefix)
        if not pattern:
            self.fault(node.file, node.line, f"the directive {node.name} names no file")
            return []
        path = posixpath.normpath(posixpath.join(self._base(node), pattern))
        if len(node.via) >= MAX_DEPTH or path in (node.file, *(place for place, _line in node.via)):
            self.fault(node.file, node.line, f"{node.name} {pattern} includes its own file again")
            return []
        found = self.find(path)
        if not found and not is_pattern(path) and node.low == "include":
            self.fault(node.file, node.line, f"the included file {path} does not exist")
        via = (*node.via, (node.file, node.line))
        return [inner for file in found for inner in self.file(file, via)]


_COMPLETE = {"openlitespeed": litespeed.completed, "apache": htaccess.completed}
