"""What one request meets in a site: who answers it by the site's own rules, and the documented differences there.

A site that an engine says otherwise in one place must still be answered as it says everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from panel.rendering.capabilities import Difference, differences
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Explanation, explain
from panel.rendering.explain import Request as Question
from panel.rendering.spec import Location, ServerBlock, SiteSpec, WebServerSpec

# Members of a server block that decide nothing about an answer.
_SILENT = re.compile(r"/(?:access_log|access_log_format|error_log|error_log_level)$")


@dataclass(frozen=True)
class Met:
    """`shown`: the texts of the computed differences. Without `explained` (only PCRE can say) nothing else is known."""

    shown: frozenset[str] = frozenset()
    spec: SiteSpec | None = None
    explained: Explanation | None = None

    @property
    def path(self) -> str:
        """As the location sees it, after rewrites; empty where none is asked."""
        return self.explained.path if self.explained else ""

    @property
    def block(self) -> ServerBlock | None:
        if self.spec is None or self.explained is None or not self.explained.block:
            return None
        return self.spec.blocks[int(self.explained.block.rpartition("/")[2])]

    @property
    def location(self) -> Location | None:
        """None: the block itself, or its own try_files."""
        return self.at(self.explained.location) if self.explained else None

    @property
    def leads(self) -> tuple[Location | None, ...]:
        """Those that may answer in the end."""
        return tuple(self.at(lead.location) for lead in self.explained.outcome.leads) if self.explained else ()

    def at(self, pointer: str) -> Location | None:
        """The location that the JSON pointer names."""
        block, number = self.block, pointer.rpartition("/locations/")[2]
        return block.locations[int(number)] if block and "/locations/" in pointer else None


def met(
    specs: Sequence[SiteSpec], web_server: WebServerSpec, host: str, port: int, target: str, *, tls: bool = False
) -> Met:
    """Of OpenLiteSpeed, which says most sites otherwise somewhere, only the differences of the answering location, of
    those it may hand on to, of its upstream and of its block; of the others all of the site."""
    if target.startswith("http://"):  # what a forward proxy is asked; its host counts
        host, _, path = target.removeprefix("http://").partition("/")
        target = f"/{path}"
    text = target.encode("latin-1", "surrogateescape").decode("utf-8", "surrogateescape")
    try:
        found = explain(specs, Question("https" if tls else "http", host, port, text))
    except NotExpressible:
        return Met()
    spec = next((spec for spec in specs if spec.name == found.site), None)
    if spec is None:
        return Met()
    every = differences(spec, web_server)
    if web_server.engine == "openlitespeed":
        pointers = {found.location, *(lead.location for lead in found.outcome.leads)} - {""}
        every = [item for item in every if _meets(item, found.block, pointers)]
    return Met(frozenset(item.what for item in every), spec, found)


def _meets(item: Difference, block: str, pointers: set[str]) -> bool:
    if "/locations/" in item.field:
        return any(item.field.startswith(f"{pointer}/") for pointer in pointers)
    if item.field.startswith("/blocks/"):
        return item.field.startswith(f"{block}/") and not _SILENT.search(item.field)
    return True
