"""Render the stream servers of sites for nginx and gallop: one file for each site, included by one stream block."""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import checks, streams
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx.quoting import line, no_variables, prefix, variable
from panel.rendering.nginx.shared import listen_place, tls_settings, upstream_servers
from panel.rendering.spec import RenderedFile, SiteSpec, StreamServer, Upstream, WebServerSpec
from panel.rendering.tree import Node, block, directive, print_tree

# Sorted behind the files that load modules, because nginx refuses load_module behind a block.
INCLUDING = "99-paddock-streams.conf"
# Room for the longest domain name. nginx refuses a map with a key that is longer than its buckets.
_BUCKET_SIZE = 512
_VERIFY_DEPTH = 3  # most intermediate certificates; public authorities use up to two
_WORDS_OF_MAPS = frozenset({"default", "hostnames", "include", "volatile"})
_BALANCING = {"least_conn": ("least_conn",), "ip_hash": ("hash", "$remote_addr")}


def site_files(spec: SiteSpec, web_server: WebServerSpec) -> list[RenderedFile]:
    """Return the file with the site's stream servers, as the only item of a list; [] without stream servers."""
    if not spec.stream_servers:
        return []
    used = set[str]().union(*map(streams.upstream_names, spec.stream_servers))
    nodes = [
        _upstream(spec, upstream, f"/upstreams/{number}")
        for number, upstream in enumerate(spec.upstreams)
        if upstream.name in used
    ]
    nodes += [_map(spec, server, number) for number, server in enumerate(spec.stream_servers) if server.routes]
    nodes += [_server(spec, web_server, number) for number in range(len(spec.stream_servers))]
    text = print_tree("nginx", line, "site.conf.j2", site=spec.name, nodes=nodes)
    return [RenderedFile(f"{streams.folder(web_server)}/{spec.name}.conf", text)]


def web_server_files(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]:
    """Return the file with which Debian's nginx.conf includes the stream servers of all sites, as the only item of a
    list.

    [] if no site has stream servers, and for gallop, whose main file includes them itself.
    """
    if web_server.engine != "nginx" or not any(spec.stream_servers for spec in specs):
        return []
    body: list[Node] = [directive("include", f"{streams.folder(web_server)}/*.conf")]
    if any(server.routes for spec in specs for server in spec.stream_servers):
        body.insert(0, directive("map_hash_bucket_size", _BUCKET_SIZE))
    nodes = [block("stream", body=body)]
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


def _map(spec: SiteSpec, server: StreamServer, number: int) -> Node:
    """Return the map that chooses the upstream by the server name in the client's TLS handshake."""
    body = [directive("hostnames"), directive("default", _name(spec, server.upstream))]
    for route in server.routes:
        key = f"\\{route.name}" if route.name in _WORDS_OF_MAPS else route.name
        body.append(directive(key, _name(spec, route.upstream)))
    return block("map", "$ssl_preread_server_name", f"${_route_variable(spec, number)}", body=list(body))


def _route_variable(spec: SiteSpec, number: int) -> str:
    return variable(spec.name, f"route_{number}")


def _server(spec: SiteSpec, web_server: WebServerSpec, number: int) -> Node:
    server, at = spec.stream_servers[number], f"/stream_servers/{number}"
    words = ["udp"] if server.protocol == "udp" else ["ssl"] if server.tls else []
    body: list[Node] = [directive("listen", listen_place(server.address, server.port, at), *words)]
    body += tls_settings(server.tls, at, zone="paddock_stream_tls") if server.tls else []
    body += [directive("allow", checks.source(source, f"{at}/allowed")) for source in server.allowed]
    body += [directive("deny", "all")] if server.allowed else []
    if server.connect_timeout_s is not None:
        body.append(directive("proxy_connect_timeout", f"{server.connect_timeout_s}s"))
    if server.session_timeout_s is not None:
        body.append(directive("proxy_timeout", f"{server.session_timeout_s}s"))
    if server.proxy_protocol:
        body.append(directive("proxy_protocol", "on"))
    body += _upstream_tls(server, web_server, at)
    if server.routes:
        body.append(directive("ssl_preread", "on"))
        body.append(directive("proxy_pass", f"${_route_variable(spec, number)}"))
    else:
        body.append(directive("proxy_pass", _name(spec, server.upstream)))
    return block("server", body=body)


def _upstream_tls(server: StreamServer, web_server: WebServerSpec, at: str) -> list[Node]:
    if not server.upstream_tls:
        return []
    lines = [directive("proxy_ssl", "on"), directive("proxy_ssl_protocols", "TLSv1.2", "TLSv1.3")]
    if server.upstream_tls_name:
        lines += [directive("proxy_ssl_server_name", "on"), directive("proxy_ssl_name", server.upstream_tls_name)]
    if server.upstream_tls_ca:
        place = f"{at}/upstream_tls_ca"
        path = no_variables(checks.path(server.upstream_tls_ca, place), place)
        if problem := streams.ca_problem(path, web_server):
            raise NotExpressible(place, problem)
        lines += [
            directive("proxy_ssl_verify", "on"),
            directive("proxy_ssl_verify_depth", _VERIFY_DEPTH),
            directive("proxy_ssl_trusted_certificate", path),
        ]
    return list(lines)
