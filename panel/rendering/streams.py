"""Checks of a site's stream servers for all engines: whether the web server can have them, and their values."""

from __future__ import annotations

from pathlib import PurePosixPath

from panel.rendering import checks
from panel.rendering.checks import refuse as fault
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec, StreamServer, Upstream, WebServerSpec
from panel.rendering.targets import target_of

_FOLDER = "stream.d"
MODULE = "ngx_stream_module"  # as Debian's file of the module is named
NOT_OFFERED = {
    "apache": "Apache httpd has no stream servers; move the site to nginx or gallop",
    "openlitespeed": "OpenLiteSpeed has no stream servers; move the site to nginx or gallop",
}
NO_MODULE = (
    "this nginx has not loaded its stream module; install the module on the host (Debian: libnginx-mod-stream), then "
    "check the host"
)
NO_PLACE = (
    "the main file of this nginx includes no files outside of its http block, so Paddock cannot add a stream block; "
    "move the site to gallop, or to nginx of Debian or Ubuntu"
)


def folder(web_server: WebServerSpec) -> str:
    """Return the folder of the files in which the sites of a web server have their stream servers."""
    return f"{web_server.config_root}/{_FOLDER}"


def is_file(path: str) -> bool:
    """Return whether a rendered file of a site contains the site's stream servers."""
    return PurePosixPath(path).parent.name == _FOLDER


def missing(web_server: WebServerSpec) -> str:
    """Return the reason why a web server cannot have stream servers; "" if it can."""
    if reason := NOT_OFFERED.get(web_server.engine):
        return reason
    if web_server.engine == "nginx" and MODULE not in web_server.modules:
        return NO_MODULE
    return NO_PLACE if web_server.engine == "nginx" and web_server.layout != "sites" else ""


def refuse(spec: SiteSpec, web_server: WebServerSpec) -> None:
    """Raise NotExpressible if the site has stream servers and the web server cannot have them."""
    if spec.stream_servers and (reason := missing(web_server)):
        raise NotExpressible("/stream_servers", reason)


def check(spec: SiteSpec) -> None:
    """Raise NotExpressible for a stream server with a value that no web server supports."""
    for number, server in enumerate(spec.stream_servers):
        at = f"/stream_servers/{number}"
        checks.word(server.name, checks.PART_NAME, f"{at}/name", "a name; use letters, digits, _ and -")
        checks.listen_address(server.address, f"{at}/address")
        checks.port(server.port, f"{at}/port")
        for source in server.allowed:
            checks.source(source, f"{at}/allowed")
        if server.protocol == "udp" and server.proxy_protocol:
            raise fault(f"{at}/proxy_protocol", "the PROXY protocol is only for TCP; turn it off")
        if message := address_problem(server, upstream_of(spec, server, at)):
            raise fault(f"{at}/upstream", message)


def upstream_of(spec: SiteSpec, server: StreamServer, at: str) -> Upstream:
    for upstream in spec.upstreams:
        if upstream.name == server.upstream:
            return upstream
    raise fault(f"{at}/upstream", f"the site has no upstream “{server.upstream}”; choose an upstream of the site")


def address_problem(server: StreamServer, upstream: Upstream) -> str:
    """Return an error message if an address of a stream server's upstream has no port, or is a socket for UDP; ""
    otherwise. The port is required because a stream server has no default port.
    """
    for item in upstream.servers:
        place = target_of(item.address)
        if place.path and server.protocol == "udp":
            return f"the upstream {upstream.name} has the socket {place.path}; UDP needs addresses with ports"
        found = checks.HOST_PORT.match(item.address)
        if not place.path and (found is None or not found["port"]):
            return f"the server {item.address} of the upstream {upstream.name} has no port; enter host:port"
    return ""


def used_only_by_udp(spec: SiteSpec, upstream: Upstream) -> bool:
    """Return whether only UDP stream servers use an upstream. A TCP connection is then no test of the upstream."""
    protocols = {server.protocol for server in spec.stream_servers if server.upstream == upstream.name}
    locations = (location for block in spec.blocks for location in block.locations)
    return protocols == {"udp"} and not any(location.upstream == upstream.name for location in locations)
