"""Render sites for Apache httpd 2.4: virtual hosts for each site; `Listen` lines and modules for each web server."""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import checks, layout, names
from panel.rendering.apache import modules
from panel.rendering.apache.main import main
from panel.rendering.apache.quoting import line
from panel.rendering.apache.upstream import balancers
from panel.rendering.apache.vhost import hosts
from panel.rendering.spec import RenderedFile, ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.tree import Node, directive, print_tree

__all__ = ["SHARES_FILES", "main", "site_files", "web_server_files"]
SHARES_FILES = True


def site_files(spec: SiteSpec, web_server: WebServerSpec) -> list[RenderedFile]:
    text = print_tree("apache", line, "site.conf.j2", site=spec.name, nodes=site(spec, web_server))
    link = f"{min(_rank(block) for block in spec.blocks)[0]:02}-{spec.name}"
    return [*layout.enabled(web_server, spec.name, text, link=link), *layout.auxiliary_files(spec)]


def site(spec: SiteSpec, web_server: WebServerSpec) -> tuple[Node, ...]:
    nodes = balancers(spec)
    for number, source in sorted(enumerate(spec.blocks), key=lambda item: _rank(item[1])):
        nodes += hosts(spec, web_server, source, f"/blocks/{number}")
    return tuple(nodes)


def _rank(source: ServerBlock) -> tuple[int, int]:
    """Return a sort key (rank, minus the length of the longest name) that puts server blocks in nginx's order of
    preference.

    Apache uses the first virtual host whose name matches, and the first of all if none matches; nginx uses the best
    match. So the ranks stand for, in this order: default servers, exact names, wildcards such as `*.example.com`,
    wildcards such as `www.*`. The length counts only among wildcards of one kind. Files of different sites are ordered
    by the rank alone, which is part of their names.
    """
    if any(listen.default_server for listen in source.listens):
        return (0, 0)
    kinds = {names.kind(name) for name in source.names}
    longest = max((len(name) for name in source.names), default=0)
    if kinds & {"leading", "dot"}:
        return (80, -longest)
    return (90, -longest) if "trailing" in kinds else (50, 0)


def web_server_files(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]:
    """Render the files that all sites of a web server share: one with `Listen` for the ports of the sites, and on
    Debian symbolic links that enable missing modules.
    """
    text = print_tree("apache", line, "listen.conf.j2", nodes=_listen(specs, web_server))
    files = layout.enabled(web_server, "paddock-listen", text, link="00-paddock-listen")
    if web_server.layout != "sites":
        return files
    wanted: set[str] = set()
    for spec in specs:
        wanted |= modules.missing(site(spec, web_server), web_server)
    return files + [link for name in sorted(wanted) for link in _enabled_module(name, web_server)]


def _listen(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[Node]:
    """Return `TraceEnable Off`, and `Listen` lines for all ports of the sites that the web server's own files do not
    open.

    A port gets one line per address. If a site uses the port on all addresses, the port gets a single line without an
    address, because lines for single addresses would collide with this line.
    """
    wanted: dict[int, set[str]] = {}
    for spec in specs:
        for number, source in enumerate(spec.blocks):
            for listen in source.listens:
                address = checks.listen_address(listen.address, f"/blocks/{number}/listens")
                wanted.setdefault(checks.port(listen.port, f"/blocks/{number}/listens"), set()).add(address)
    lines: list[Node] = [directive("TraceEnable", "Off")]
    for port, addresses in sorted(wanted.items()):
        if port in web_server.own_ports:
            continue
        if addresses & {"", "::"}:
            lines.append(directive("Listen", port))
        else:
            lines += [directive("Listen", _socket(address, port)) for address in sorted(addresses)]
    return lines


def _socket(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _enabled_module(name: str, web_server: WebServerSpec) -> list[RenderedFile]:
    """Return the symbolic links in mods-enabled that enable a module, as Debian's a2enmod creates them."""
    suffixes = ("load", "conf") if name in modules.WITH_CONF else ("load",)
    root = web_server.config_root
    return [
        RenderedFile(f"{root}/mods-enabled/{name}.{suffix}", link_target=f"../mods-available/{name}.{suffix}")
        for suffix in suffixes
    ]
