"""Map an imported configuration to sites of the panel's model, with modules for each web server."""

from __future__ import annotations

from panel.imports.mapping import apache, nginx, openlitespeed
from panel.imports.reading import Loaded
from panel.imports.report import Report
from panel.rendering.spec import WebServerSpec

__all__ = ["mapped"]

MAPPERS = {
    "nginx": nginx.mapped,
    "native": nginx.mapped,
    "apache": apache.mapped,
    "openlitespeed": openlitespeed.mapped,
}


def mapped(loaded: Loaded, web_server: WebServerSpec, prefix: str) -> Report:
    """Map a loaded configuration to a Report of sites, by the engine of `web_server`. `prefix`: root of
    relative paths.
    """
    return MAPPERS[web_server.engine](loaded, web_server, prefix)
