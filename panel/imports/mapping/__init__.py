"""From a configuration that was read to sites of the model. One module per server."""

from __future__ import annotations

from panel.imports.mapping import apache, nginx, openlitespeed
from panel.imports.reading import Loaded
from panel.imports.report import Report
from panel.rendering.spec import InstallSpec

__all__ = ["mapped"]

MAPPERS = {
    "nginx": nginx.mapped,
    "native": nginx.mapped,
    "apache": apache.mapped,
    "openlitespeed": openlitespeed.mapped,
}


def mapped(loaded: Loaded, install: InstallSpec, prefix: str) -> Report:
    """What was found, for `install`'s engine; `prefix` is the server's root."""
    return MAPPERS[install.engine](loaded, install, prefix)
