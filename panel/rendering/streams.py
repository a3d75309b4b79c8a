"""Checks of a site's stream servers for all engines: whether the web server can have them, and their values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from panel.rendering import checks, confined
from panel.rendering.checks import refuse as fault
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec, StreamServer, Upstream, WebServerSpec
from panel.rendering.targets import target_of

_FOLDER = "stream.d"
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_TLS_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
MODULE = "ngx_stream_module"  # as Debian's file of the module is named
LONGEST_NAME = 253
ROUTES_EXCLUDE_TLS = (
    "the web server passes TLS on unchanged to choose an upstream by the name; remove the names, or choose no "
    "certificate and no TLS to the upstream"
)
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
        for name, place in _upstreams_of(server, at):
            if message := address_problem(server, upstream_of(spec, name, place)):
                raise fault(place, message)
        _check_tls(server, at)


def _upstreams_of(server: StreamServer, at: str) -> Iterator[tuple[str, str]]:
    """Yield (name of an upstream, JSON pointer to this name) for the upstreams of a stream server."""
    yield server.upstream, f"{at}/upstream"
    yield from ((route.upstream, f"{at}/routes/{number}/upstream") for number, route in enumerate(server.routes))


def _check_tls(server: StreamServer, at: str) -> None:
    """Raise NotExpressible for a combination of TLS settings that no web server supports, and for invalid names."""
    for field, value in (("tls", server.tls), ("upstream_tls", server.upstream_tls), ("routes", server.routes)):
        if value and server.protocol == "udp":
            raise fault(f"{at}/{field}", "TLS is only for TCP; turn it off, or choose TCP")
    if server.routes and (server.tls or server.upstream_tls):
        raise fault(f"{at}/routes", ROUTES_EXCLUDE_TLS)
    names: set[str] = set()
    for number, route in enumerate(server.routes):
        place = f"{at}/routes/{number}/name"
        name = tls_name(route.name.removeprefix("*."), place)
        if route.name in names:
            raise fault(place, f"{name} appears twice; remove one of the lines")
        names.add(route.name)
    if server.upstream_tls_name:
        tls_name(server.upstream_tls_name, f"{at}/upstream_tls_name")
    if server.upstream_tls_ca and not server.upstream_tls_name:
        raise fault(f"{at}/upstream_tls_name", "enter the name that the upstream's certificate must have")


def tls_name(value: str, at: str) -> str:
    """Return `value`; raise NotExpressible unless it is a domain name in lower case, in the form that DNS uses."""
    if len(value) > LONGEST_NAME:
        raise fault(at, f"the name is longer than {LONGEST_NAME} characters")
    return checks.word(value, _TLS_NAME, at, "a domain name such as mail.example.com")


def ca_problem(path: str, web_server: WebServerSpec) -> str:
    """Return an error message unless the path of CA certificates is below a site folder, or in a folder of the system's
    certificates, which are public.
    """
    return confined.path_problem(path, (*web_server.site_roots, *confined.AUTHORITIES))


def upstream_of(spec: SiteSpec, name: str, at: str) -> Upstream:
    for upstream in spec.upstreams:
        if upstream.name == name:
            return upstream
    raise fault(at, f"the site has no upstream “{name}”; choose an upstream of the site")


def upstream_names(server: StreamServer) -> set[str]:
    """Return the names of the upstreams to which a stream server passes connections."""
    return {server.upstream, *(route.upstream for route in server.routes)}


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
    protocols = {server.protocol for server in spec.stream_servers if upstream.name in upstream_names(server)}
    locations = (location for block in spec.blocks for location in block.locations)
    return protocols == {"udp"} and not any(location.upstream == upstream.name for location in locations)
