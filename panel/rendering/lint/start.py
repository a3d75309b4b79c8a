"""Find mistakes that prevent a web server from starting, so that all of its sites are down."""

from __future__ import annotations

from collections.abc import Iterator

from panel.rendering.lint.finding import Finding
from panel.rendering.spec import ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.targets import is_name, target_of

# Apache and OpenLiteSpeed look a name up when the first request needs it.
_RESOLVE_AT_START = ("nginx", "native")


def of_site(spec: SiteSpec, web_server: WebServerSpec) -> Iterator[Finding]:
    """Yield a finding for each upstream server and PHP pool with a name that the host has to resolve before its web
    server starts.
    """
    if web_server.engine not in _RESOLVE_AT_START:
        return
    addresses = [
        (f"upstreams/{number}/servers/{position}", server.address)
        for number, upstream in enumerate(spec.upstreams)
        for position, server in enumerate(upstream.servers)
    ]
    addresses += [(f"php_pools/{number}", pool.address) for number, pool in enumerate(spec.php_pools)]
    for where, address in addresses:
        if is_name(address):
            yield name_at_start(where, target_of(address).host, web_server.engine)


def name_at_start(where: str, name: str, engine: str) -> Finding:
    """Return the finding for a name that nginx or gallop (`engine`) resolves when it starts."""
    server = "gallop" if engine == "native" else "nginx"
    return Finding(
        "name-at-start",
        where,
        f"{server} needs DNS for {name} whenever it starts.",
        f"If the host cannot resolve the name after a reboot, {server} does not start, and all its sites are down. "
        f"If the name gets a new address, {server} uses the old address until the next reload. Use an IP address, "
        "or add the name to /etc/hosts on the host.",
    )


def of_block(block: ServerBlock, where: str) -> Iterator[Finding]:
    """Yield a finding if the server block has TLS ports but no certificate."""
    ports = sorted({listen.port for listen in block.listens if listen.tls})
    if ports and block.tls is None:
        named = ", ".join(str(port) for port in ports)
        yield Finding(
            "no-certificate",
            where,
            f"HTTPS is on for port {named}, but the server block has no certificate.",
            "No web server accepts TLS connections without a certificate, so this site cannot be deployed. "
            "Choose a certificate, turn on automatic HTTPS, or turn off TLS for the port.",
        )
