"""A virtual host of Apache while it becomes a block of the model."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from panel.imports.mapping.common import Draft
from panel.imports.reading import Node


class Host:
    """A virtual host in the making."""

    def __init__(
        self, draft: Draft, node: Node, own: tuple[Node, ...], prefix: str, around: Sequence[Node] = ()
    ) -> None:
        self.draft = draft
        self.node = node
        self.own = own
        self.prefix = prefix
        self.around = around
        self.where = f"blocks/{len(draft.blocks)}"
        self.block: dict[str, Any] = {"listens": [], "names": [], "locations": []}
        self.caching: str | None = None  # what became of mod_cache's directives: apache_cache
        self.closed: Sequence[str] = ()  # files and folders that could not be read
        self.ended = False  # a redirect of everything took the location /

    @property
    def root(self) -> str:
        """The document root that counts; "" where nothing says it."""
        said = self.values("documentroot")
        return self.path(said[-1]) if said else ""

    def values(self, low: str) -> list[str]:
        return [node.value for node in self.own if node.low == low]

    def path(self, value: str) -> str:
        return posixpath.normpath(posixpath.join(self.prefix, value))

    def add(self, row: dict[str, Any]) -> str:
        """Add a location; why not, where another directive answers its paths already."""
        values = {"match": "", "handler": "static", **row}
        keys = [(known["match"], known["pattern"]) for known in self.block["locations"]]
        if self.ended or (values["match"], values["pattern"]) in keys:
            return "another directive already handles these paths"
        self.block["locations"].append(values)
        return ""

    def rules(self, rewrites: list[dict[str, Any]], try_files: list[str]) -> None:
        """Rules of the whole site. Files first is meant of scripts too, which have a location of their own."""
        self.block["rewrites"] = rewrites
        if not try_files:
            return
        self.block["try_files"] = try_files
        for row in self.block["locations"]:
            if row["handler"] == "php":
                row.setdefault("try_files", ["$uri", try_files[-1]])
