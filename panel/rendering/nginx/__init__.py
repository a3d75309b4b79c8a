"""Render sites for nginx, and for gallop, which reads nginx's syntax. Each site has its own files. Only the file that
includes the stream servers of all sites is shared.
"""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import layout
from panel.rendering.nginx import stream
from panel.rendering.nginx.main import main
from panel.rendering.nginx.quoting import line
from panel.rendering.nginx.site import site
from panel.rendering.spec import RenderedFile, SiteSpec, WebServerSpec
from panel.rendering.tree import print_tree

__all__ = ["SHARES_FILES", "main", "site_files", "web_server_files"]
SHARES_FILES = False


def site_files(spec: SiteSpec, web_server: WebServerSpec) -> list[RenderedFile]:
    files = stream.site_files(spec, web_server)
    if spec.blocks:
        text = print_tree("nginx", line, "site.conf.j2", site=spec.name, nodes=site(spec, web_server))
        files = [*layout.enabled(web_server, spec.name, text), *files]
    return [*files, *layout.auxiliary_files(spec)]


def web_server_files(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]:
    return stream.web_server_files(specs, web_server)
