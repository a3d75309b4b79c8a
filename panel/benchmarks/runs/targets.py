"""Choice of the listener of a deployed site to which a load tool sends requests.
Runs get their targets only from this module. The listener comes from the live revision, because the draft may have
listeners that the host does not have.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from panel.benchmarks.tools.arguments import Arguments
from panel.benchmarks.tools.commands import Endpoint
from panel.core.errors import ApplicationError
from panel.deployments.models import Revision, SiteState, SiteStatus
from panel.hosts.models import Connection, Engine, HostStatus, WebServer
from panel.rendering.spec import Listen, ServerBlock, SiteSpec, from_json
from panel.websites.models import Site

_LOOPBACK = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104 - as found in listens
# Process names for servers without a pid file.
PROCESSES = {
    Engine.NGINX: ["nginx"],
    Engine.APACHE: ["apache2", "httpd"],
    Engine.OPENLITESPEED: ["litespeed*", "openlitespeed*", "lshttpd*"],
    Engine.NATIVE: ["gallop*"],
}
_APPLICATION = ["php-fpm*", "lsphp*"]


def live_revision(site: Site) -> Revision:
    """Return the live revision of a site. ApplicationError if the site is not deployed, or its host is not ready."""
    state = SiteState.objects.filter(site=site).select_related("revision__web_server__host").first()
    if state is None or state.revision is None or state.status == SiteStatus.DISABLED:
        raise ApplicationError(f"{site.name} is not deployed. Deploy the site before you benchmark it.", field="sites")
    revision = state.revision
    host = revision.web_server.host
    if host.connection != Connection.LOCAL and host.status != HostStatus.READY:
        raise ApplicationError(
            f"{site.name} is on {host.name}, which is {host.get_status_display().lower()}. Check the host first.",
            field="sites",
        )
    return revision


def endpoint(revision: Revision, arguments: Arguments) -> Endpoint:
    """Return the first listener of the site that supports the scenario's protocol; ApplicationError if there
    is none.
    """
    spec = from_json(SiteSpec, revision.spec)
    protocol, tls = str(arguments.get("protocol", "h1")), bool(arguments["tls"])
    for block in spec.blocks:
        for listen in block.listens:
            if _fits(listen, protocol, tls):
                address = _LOOPBACK.get(listen.address, listen.address)
                return Endpoint(address, listen.port, _name(block) or address, tls)
    words = {"h1": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"}[protocol] + (" over TLS" if tls else " without TLS")
    raise ApplicationError(
        f"{spec.name} has no address for {words} in its deployed revision. Add such "
        f"an address, or change the scenario.",
        field="sites",
    )


def endpoint_as(revision: Revision, arguments: Arguments, base_url: str) -> Endpoint:
    """Return the listener of a revision, for requests whose Host header has the port of `base_url`.
    A site's copy listens on another port than the original. Applications respond depending on the requested port, so
    requests to both must name the port at which visitors reach the original: that of `base_url`.
    """
    found = endpoint(revision, arguments)
    known = urlsplit(base_url).port or {"http": 80, "https": 443}[found.scheme]
    return replace(found, known_port=known)


def _fits(listen: Listen, protocol: str, tls: bool) -> bool:
    if listen.tls != tls:
        return False
    if protocol == "h1":
        return tls or not listen.http2  # without TLS, an HTTP/2 listener may support nothing else
    return listen.http2 if protocol == "h2" else listen.http3


def _name(block: ServerBlock) -> str:
    """Return a host name that the server block handles; "" if the block has only regular expressions or no name."""
    for name in block.names:
        if name.startswith("~") or name in ("_", ""):
            continue
        if name.startswith("*."):
            return "benchmark" + name[1:]
        if name.startswith("."):
            return name[1:]
        return name[:-1] + "example" if name.endswith(".*") else name
    return ""


def allowed(revision: Revision) -> list[str]:
    """Return every listener of the deployed site, in the agent's notation: "127.0.0.1:80", "[::1]:443"."""
    spec = from_json(SiteSpec, revision.spec)
    found = (
        Endpoint(_LOOPBACK.get(listen.address, listen.address), listen.port, "").target
        for block in spec.blocks
        for listen in block.listens
    )
    return sorted(set(found))


def trees(revision: Revision) -> dict[str, list[str]]:
    """Return the process trees to monitor on the host, as {"server": roots, "application": roots}.
    The key "application" exists only for sites with PHP. Roots are the path of a pid file, or names of processes.
    """
    web_server: WebServer = revision.web_server
    pid_file = web_server.paths.get("pid_file", "")
    found = {"server": [pid_file] if pid_file else PROCESSES[Engine(web_server.engine)]}
    if from_json(SiteSpec, revision.spec).php_pools:
        found["application"] = _APPLICATION
    return found
