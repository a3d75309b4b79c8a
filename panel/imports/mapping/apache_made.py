"""State of the mapping of an Apache virtual host to a server block of a site."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from panel.imports.mapping.common import Draft
from panel.imports.reading import Node
from panel.websites.definitions import BlockData, LocationData, RewriteData


class Host:
    """State of mapping an Apache virtual host: the directives inside of it (`own`), those outside of all virtual hosts
    (`around`), and the server block mapped so far (`block`).
    """

    def __init__(
        self, draft: Draft, node: Node, own: tuple[Node, ...], prefix: str, around: Sequence[Node] = ()
    ) -> None:
        self.draft = draft
        self.node = node
        self.own = own
        self.prefix = prefix
        self.around = around
        self.where = f"blocks/{len(draft.blocks)}"
        self.block: BlockData = {"listens": [], "names": [], "locations": []}
        self.caching: str | None = None  # result for mod_cache's directives: apache_cache
        self.closed: Sequence[str] = ()  # unreadable files and folders
        self.ended = False  # a redirect of everything took the location /

    @property
    def root(self) -> str:
        """Effective document root; "" if there is none."""
        said = self.values("documentroot")
        return self.path(said[-1]) if said else ""

    def values(self, low: str) -> list[str]:
        return [node.value for node in self.own if node.low == low]

    def path(self, value: str) -> str:
        return posixpath.normpath(posixpath.join(self.prefix, value))

    def add(self, row: LocationData) -> str:
        """Add a location to the server block and return "". If another directive already handles the location's paths,
        return an error message.
        """
        values: LocationData = {"match": "", "handler": "static", **row}
        keys = [(known["match"], known["pattern"]) for known in self.block["locations"]]
        if self.ended or (values["match"], values["pattern"]) in keys:
            return "another directive of the virtual host already handles these paths"
        self.block["locations"].append(values)
        return ""

    def rules(self, rewrites: list[RewriteData], try_files: list[str]) -> None:
        """Set rewrites and try_files of the server block. Set try_files of its PHP locations too, because they do not
        inherit the server block's try_files.
        """
        self.block["rewrites"] = rewrites
        if not try_files:
            return
        self.block["try_files"] = try_files
        for row in self.block["locations"]:
            if row["handler"] == "php":
                row.setdefault("try_files", ["$uri", try_files[-1]])
