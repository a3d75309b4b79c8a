"""Render the stream servers of sites for nginx and gallop: one file for each site, included by one stream block."""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import checks, streams
from panel.rendering.nginx.quoting import line, prefix
from panel.rendering.nginx.shared import listen_place, upstream_servers
from panel.rendering.spec import RenderedFile, SiteSpec, StreamServer, Upstream, WebServerSpec
from panel.rendering.tree import Node, block, directive, print_tree

# Sorted behind the files that load modules, because nginx refuses load_module behind a block.
INCLUDING = "99-paddock-streams.conf"
_BALANCING = {"least_conn": ("least_conn",), "ip_hash": ("hash", "$remote_addr")}


def site_files(spec: SiteSpec, web_server: WebServerSpec) -> list[RenderedFile]:
    """Return the file with the site's stream servers, as the only item of a list; [] without stream servers."""
    if not spec.stream_servers:
        return []
    used = {server.upstream for server in spec.stream_servers}
    nodes = [
        _upstream(spec, upstream, f"/upstreams/{number}")
        for number, upstream in enumerate(spec.upstreams)
        if upstream.name in used
    ]
    nodes += [_server(spec, server, f"/stream_servers/{n}") for n, server in enumerate(spec.stream_servers)]
    text = print_tree("nginx", line, "site.conf.j2", site=spec.name, nodes=nodes)
    return [RenderedFile(f"{streams.folder(web_server)}/{spec.name}.conf", text)]


def web_server_files(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]:
    """Return the file with which Debian's nginx.conf includes the stream servers of all sites, as the only item of a
    list.

    [] if no site has stream servers, and for gallop, whose main file includes them itself.
    """
    if web_server.engine != "nginx" or not any(spec.stream_servers for spec in specs):
        return []
    nodes = [block("stream", body=[directive("include", f"{streams.folder(web_server)}/*.conf")])]
    text = print_tree("nginx", line, "streams.conf.j2", nodes=nodes)
    return [RenderedFile(f"{web_server.config_root}/modules-enabled/{INCLUDING}", text)]


def _upstream(spec: SiteSpec, upstream: Upstream, at: str) -> Node:
    body: list[Node] = []
    if upstream.balancing != "round_robin":
        body.append(directive(*_BALANCING[upstream.balancing]))
    body += upstream_servers(upstream, at)
    return block("upstream", _name(spec, upstream.name), body=body)


def _name(spec: SiteSpec, upstream: str) -> str:
    return f"{prefix(spec.name)}_{upstream}"


def _server(spec: SiteSpec, server: StreamServer, at: str) -> Node:
    where = listen_place(server.address, server.port, at)
    body: list[Node] = [directive("listen", where, *(["udp"] if server.protocol == "udp" else []))]
    body += [directive("allow", checks.source(source, f"{at}/allowed")) for source in server.allowed]
    body += [directive("deny", "all")] if server.allowed else []
    if server.connect_timeout_s is not None:
        body.append(directive("proxy_connect_timeout", f"{server.connect_timeout_s}s"))
    if server.session_timeout_s is not None:
        body.append(directive("proxy_timeout", f"{server.session_timeout_s}s"))
    if server.proxy_protocol:
        body.append(directive("proxy_protocol", "on"))
    body.append(directive("proxy_pass", _name(spec, server.upstream)))
    return block("server", body=body)
