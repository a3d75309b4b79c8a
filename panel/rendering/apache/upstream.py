"""Render upstreams as Apache balancers, and the proxy targets of locations."""

from __future__ import annotations

from panel.rendering import checks, handlers
from panel.rendering.spec import Location, SiteSpec, Upstream, UpstreamServer
from panel.rendering.tree import Node, block, directive

METHODS = {"round_robin": "byrequests", "least_conn": "bybusyness", "ip_hash": "byrequests"}


# Schemes of proxy targets by protocol and TLS, and the suffixes of their balancers' names.
SCHEMES = {
    ("http", False): "http",
    ("http", True): "https",
    ("grpc", False): "h2c",
    ("grpc", True): "h2",
    ("uwsgi", False): "uwsgi",
}
SUFFIXES = {"http": "", "https": "_tls", "h2c": "_grpc", "h2": "_grpcs", "uwsgi": "_uwsgi"}


def balancer_name(spec: SiteSpec, upstream: Upstream, scheme: str) -> str:
    return f"balancer://{spec.name}_{upstream.name}{SUFFIXES[scheme]}".lower()


def scheme_of(source: Location) -> str:
    """Return the scheme of the location's proxy target; handlers.check must have accepted the location."""
    return SCHEMES[source.upstream_protocol, source.upstream_tls]


def is_simple(upstream: Upstream) -> bool:
    """Return whether the upstream has only one server, which is neither down nor a backup. Such an upstream needs no
    balancer.
    """
    server = upstream.servers[0]
    return len(upstream.servers) == 1 and not server.down and not server.backup


def balancers(spec: SiteSpec) -> list[Node]:
    """Return a `<Proxy balancer://>` block for each upstream that needs a balancer, and for each scheme with which
    locations use it.
    """
    found: list[Node] = []
    for number, upstream in enumerate(spec.upstreams):
        users = [item for block_ in spec.blocks for item in block_.locations if item.handler == "proxy"]
        schemes = {scheme_of(item) for item in users if item.upstream == upstream.name}
        for scheme in sorted(schemes):
            if not is_simple(upstream):
                found.append(_balancer(spec, upstream, scheme, f"/upstreams/{number}"))
    return found


def _balancer(spec: SiteSpec, upstream: Upstream, scheme: str, at: str) -> Node:
    body: list[Node] = []
    parameters = _parameters(spec, upstream)
    for number, server in enumerate(upstream.servers):
        words = [f"loadfactor={server.weight}"] if server.weight != 1 else []
        words += [f"retry={server.fail_timeout_s}"] if server.fail_timeout_s != 60 else []
        words += ["status=+H"] if server.backup else []
        words += ["status=+D"] if server.down else []
        body.append(
            directive("BalancerMember", _url(server, scheme, f"{at}/servers/{number}/address"), *words, *parameters)
        )
    body.append(directive("ProxySet", f"lbmethod={METHODS[upstream.balancing]}"))
    return block("Proxy", balancer_name(spec, upstream, scheme), body=body)


def _url(server: UpstreamServer, scheme: str, at: str) -> str:
    address = checks.address(server.address, at)
    return f"{address}|{scheme}://localhost" if address.startswith("unix:") else f"{scheme}://{address}"


def _parameters(spec: SiteSpec, upstream: Upstream) -> list[str]:
    """Return the parameters that all servers of an upstream get in Apache's configuration, such as timeouts.

    Apache has timeouts per server, not per location, so the longest timeout of the site's locations applies.
    """
    users = [item for block_ in spec.blocks for item in block_.locations if item.handler == "proxy"]
    users = [item for item in users if item.upstream == upstream.name]
    connect = [item.connect_timeout_s for item in users if item.connect_timeout_s is not None]
    read = [item.read_timeout_s for item in users if item.read_timeout_s is not None]
    words = [f"connectiontimeout={max(connect)}"] if connect else []
    words += [f"timeout={max(read)}"] if read else []
    words += ["flushpackets=on"] if any(item.upstream_protocol == "grpc" for item in users) else []  # for gRPC streams
    return words + (["upgrade=websocket"] if any(item.websocket for item in users) else [])


def target_of(spec: SiteSpec, source: Location, at: str) -> tuple[str, list[str]]:
    """Return (URL of the location's upstream without a path, parameters of ProxyPassMatch)."""
    number, upstream = handlers.upstream_of(spec, source, at)
    scheme = scheme_of(source)
    # Without a URI of its own, an HTTP upstream gets the path as the client sent it, as in nginx. mod_proxy_uwsgi would
    # then take the query for a part of PATH_INFO.
    raw = [] if source.proxy_uri or scheme == "uwsgi" else ["nocanon"]
    if not is_simple(upstream):
        return balancer_name(spec, upstream, scheme), raw
    server = upstream.servers[0]
    url = _url(server, scheme, f"/upstreams/{number}/servers/0/address")
    retry = [f"retry={server.fail_timeout_s}"]
    return url, [*raw, *retry, *_parameters(spec, upstream)]


def host_of(spec: SiteSpec, source: Location, at: str) -> str:
    """Return the Host header that httpd sends by default to an upstream with one plain server; "" for a balancer or a
    socket.
    """
    _number, upstream = handlers.upstream_of(spec, source, at)
    address = upstream.servers[0].address
    if not is_simple(upstream) or address.startswith("unix:"):
        return ""
    return address.removesuffix(":443" if source.upstream_tls else ":80")
