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
    """Return a sort key that puts Apache's virtual hosts in nginx's order of preference.

    Apache uses the first virtual host whose name matches, and the first of all as the default; nginx uses the best
    name. So the order is: default servers, exact names, wildcards such as `*.example.com`, wildcards such as `www.*`.
    Among wildcards of one kind, the longest comes first. The files of different sites are ordered only by the first
    number of the key, without the length.
    """
    if any(listen.default_server for listen in source.listens):
        return (0, 0)
    kinds = {names.kind(name) for name in source.names}
    longest = max((len(name) for name in source.names), default=0)
    if kinds & {"leading", "dot"}:
        return (80, -longest)
    return (90, -longest) if "trailing" in kinds else (50, 0)


def web_server_files(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]:
    """Render `Listen` for every port that the server's own files do not open, and on Debian the modules
    that sites need.
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
    """Return one `Listen` line per socket.

    A port open on all addresses gets no lines for single addresses, which would collide.
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
    """Return the links that enable a module, as a2enmod does."""
    suffixes = ("load", "conf") if name in modules.WITH_CONF else ("load",)
    root = web_server.config_root
    return [
        RenderedFile(f"{root}/mods-enabled/{name}.{suffix}", link_target=f"../mods-available/{name}.{suffix}")
        for suffix in suffixes
    ]
