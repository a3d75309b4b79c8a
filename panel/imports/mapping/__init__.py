"""Map an imported configuration to sites of the model, with one module per web server."""

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
    """Result for `web_server`'s engine; `prefix` is the server's root."""
    return MAPPERS[web_server.engine](loaded, web_server, prefix)
