"""Names of a site's virtual hosts, applications and folders, by which the rendered files refer to each other."""

from __future__ import annotations

from panel.rendering import handlers
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import Location, SiteSpec, WebServerSpec

# Protocols of upstreams, and the reasons for which locations cannot use them. Observed on 1.9.1: PATH_INFO is only the
# rest after the context's path, SCRIPT_NAME the context's path, also for `/` and expressions; sockets give 500.
NOT_OFFERED = {
    "grpc": "OpenLiteSpeed speaks only HTTP/1.1 to upstreams, and gRPC needs HTTP/2; move the site to nginx or gallop",
    "uwsgi": "OpenLiteSpeed sends other paths to uWSGI applications than nginx; move the site to nginx, gallop, or "
    "Apache, or let uWSGI speak HTTP (http-socket) and choose HTTP",
}


def host_name(spec: SiteSpec, number: int) -> str:
    """Return the name of a server block's virtual host: the site's name, then name_2, name_3.

    Site names contain no `_`, so these names are unique.
    """
    return spec.name if number == 0 else f"{spec.name}_{number + 1}"


def folder(web_server: WebServerSpec, host: str) -> str:
    return f"{web_server.config_root}/vhosts/{host}"


def upstream_app(spec: SiteSpec, source: Location, at: str) -> str:
    if reason := NOT_OFFERED.get(source.upstream_protocol):
        raise NotExpressible(f"{at}/upstream_protocol", reason)
    _, upstream = handlers.upstream_of(spec, source, at)
    return app_name(spec, upstream.name, source.upstream_tls)


def app_name(spec: SiteSpec, upstream: str, tls: bool) -> str:
    return f"{spec.name}_{upstream}{'_tls' if tls else ''}"


def pool_app(spec: SiteSpec, pool: str) -> str:
    return f"{spec.name}_php_{pool}"
