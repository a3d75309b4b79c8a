"""Render external applications: PHP pools and upstream servers."""

from __future__ import annotations

from panel.rendering import checks
from panel.rendering.openlitespeed.hosts import app_name, pool_app
from panel.rendering.spec import PhpPool, ServerBlock, SiteSpec, Upstream, UpstreamServer
from panel.rendering.tree import Node, block, directive


def applications(spec: SiteSpec, source: ServerBlock) -> list[Node]:
    """Return the external applications that the server block's locations use."""
    found: list[Node] = []
    pools = {location.php_pool for location in source.locations if location.handler == "php"}
    for number, pool in enumerate(spec.php_pools):
        if pool.name in pools:
            found.append(_pool(spec, pool, f"/php_pools/{number}/address"))
    proxied = {(item.upstream, item.upstream_tls) for item in source.locations if item.handler == "proxy"}
    for number, upstream in enumerate(spec.upstreams):
        for tls in (False, True):
            if (upstream.name, tls) in proxied:
                found += _upstream(spec, source, upstream, tls, f"/upstreams/{number}")
    return found


def balances(upstream: Upstream) -> bool:
    """Return whether the upstream needs a load balancer, because more than one of its servers gets requests."""
    return len(_servers(upstream)) > 1


def _servers(upstream: Upstream) -> list[UpstreamServer]:
    """Return the servers of the upstream that are not down; backups only if there are no others."""
    up = [server for server in upstream.servers if not server.down]
    return [server for server in up if not server.backup] or up


def _pool(spec: SiteSpec, pool: PhpPool, at: str) -> Node:
    address = checks.address(pool.address, at)
    socket = f"uds:/{address.removeprefix('unix:')}" if address.startswith("unix:") else address
    body = [
        directive("type", "fcgi"),
        directive("address", socket),
        directive("maxConns", 35),
        directive("initTimeout", 60),
        directive("retryTimeout", 0),
        directive("persistConn", 0, comment="an idle connection would occupy one process of the pool"),
        directive("respBuffer", 0),
        directive("autoStart", 0),
    ]
    return block("extprocessor", pool_app(spec, pool.name), body=body)


def _upstream(spec: SiteSpec, source: ServerBlock, upstream: Upstream, tls: bool, at: str) -> list[Node]:
    """Return the external applications of an upstream: one for each server and, if it has several servers, a load
    balancer.
    """
    name = app_name(spec, upstream.name, tls)
    users = [item for item in source.locations if item.upstream == upstream.name and item.upstream_tls == tls]
    timeout = max([item.read_timeout_s for item in users if item.read_timeout_s is not None], default=60)
    servers = _servers(upstream)
    apps: list[Node] = []
    names: list[str] = []
    for number, server in enumerate(servers, 1):
        address = checks.address(server.address, f"{at}/servers")
        if address.startswith("unix:"):
            address = f"uds:/{address.removeprefix('unix:')}"
        names.append(name if len(servers) == 1 else f"{name}_{number}")
        body = [
            directive("type", "proxy"),
            directive("address", f"https://{address}" if tls else address),
            directive("maxConns", 100),
            directive("initTimeout", timeout),
            directive("retryTimeout", server.fail_timeout_s),
            directive("pcKeepAliveTimeout", 60 if upstream.keepalive else 0),
            directive("respBuffer", 0),
        ]
        apps.append(block("extprocessor", names[-1], body=body))
    if len(servers) > 1:
        workers = ", ".join(f"proxy::{worker}" for worker in names)
        apps.append(
            block("extprocessor", name, body=[directive("type", "loadbalancer"), directive("workers", workers)])
        )
    return apps
