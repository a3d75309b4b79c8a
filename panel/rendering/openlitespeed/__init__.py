"""Render sites for OpenLiteSpeed 1.7 and later.

Each server block is a virtual host; listeners and maps are in one shared file. `config_root` is the folder of
httpd_config.conf, usually /usr/local/lsws/conf. If the panel does not manage the main file, that file needs one line:
`include paddock.conf`.
"""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import layout, maintenance
from panel.rendering.locations import locations_of
from panel.rendering.openlitespeed import answers
from panel.rendering.openlitespeed.hosts import folder, host_name
from panel.rendering.openlitespeed.listeners import web_server_nodes
from panel.rendering.openlitespeed.main import main
from panel.rendering.openlitespeed.quoting import line
from panel.rendering.openlitespeed.vhost import host
from panel.rendering.spec import RenderedFile, SiteSpec, WebServerSpec
from panel.rendering.tree import print_tree

__all__ = ["SHARES_FILES", "main", "site_files", "web_server_files"]
SHARES_FILES = True


def site_files(spec: SiteSpec, web_server: WebServerSpec) -> list[RenderedFile]:
    spec = maintenance.instead(spec)
    files: list[RenderedFile] = []
    for number, block in enumerate(spec.blocks):
        where = folder(web_server, host_name(spec, number))
        nodes = host(spec, web_server, number)
        text = print_tree("openlitespeed", line, "vhconf.conf.j2", site=spec.name, nodes=nodes)
        files.append(RenderedFile(f"{where}/vhconf.conf", text))
        if not block.root:
            files.append(RenderedFile(f"{where}/html/.keep"))  # the document root must exist
        for place in answers.places(locations_of(block, f"/blocks/{number}")):
            files.append(RenderedFile(f"{where}/{answers.file_name(place)}", answers.text(place)))
    return [*files, *layout.auxiliary_files(spec)]


def web_server_files(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]:
    nodes = web_server_nodes([maintenance.instead(spec) for spec in specs], web_server)
    text = print_tree("openlitespeed", line, "paddock.conf.j2", nodes=nodes)
    return [RenderedFile(f"{web_server.config_root}/paddock.conf", text)]
