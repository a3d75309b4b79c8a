"""Map an imported configuration to sites, with separate modules for each web server."""

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
    """Map a loaded configuration to a Report of sites, with the mapper for the engine of `web_server`. `prefix`: folder
    to which relative paths refer.
    """
    return MAPPERS[web_server.engine](loaded, web_server, prefix)
