"""Parts of a configuration that nginx has in both http and stream: servers of upstreams, listen addresses, and
certificates.
"""

from __future__ import annotations

from panel.rendering import checks
from panel.rendering.nginx.quoting import no_variables
from panel.rendering.spec import TlsFiles, Upstream
from panel.rendering.tree import Node, directive


def upstream_servers(upstream: Upstream, at: str) -> list[Node]:
    """Return the `server` directives of an upstream. `at`: JSON pointer of the upstream in the site, for error
    messages.
    """
    nodes: list[Node] = []
    for number, server in enumerate(upstream.servers):
        if server.backup and upstream.balancing == "ip_hash":
            continue  # nginx rejects the combination; capabilities reports it
        words = [checks.address(server.address, f"{at}/servers/{number}/address")]
        words += [f"weight={server.weight}"] if server.weight != 1 else []
        words += [f"max_fails={server.max_fails}"] if server.max_fails != 1 else []
        words += [f"fail_timeout={server.fail_timeout_s}s"] if server.fail_timeout_s != 10 else []
        words += ["backup"] if server.backup else []
        words += ["down"] if server.down else []
        nodes.append(directive("server", *words))
    return nodes


def listen_place(address: str, port: int, at: str) -> str:
    """Return the address and port for a listen directive: `80`, `192.0.2.1:80`, `[::1]:80`. `at`: JSON pointer of the
    listener or stream server in the site, for error messages.
    """
    address, port = checks.listen_address(address, f"{at}/address"), checks.port(port, f"{at}/port")
    if not address:
        return str(port)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def tls_settings(tls: TlsFiles, at: str, *, zone: str) -> list[Node]:
    """Return the TLS directives of a server: certificate, versions, and sessions in the shared memory `zone`, of which
    http and stream cannot share one. `at`: JSON pointer of the server in the site, for error messages.
    """
    certificate, key = f"{at}/tls/certificate_path", f"{at}/tls/key_path"
    return [
        directive(
            "ssl_certificate", no_variables(checks.path(tls.certificate_path, certificate), certificate), gap=True
        ),
        directive("ssl_certificate_key", no_variables(checks.path(tls.key_path, key), key)),
        directive("ssl_protocols", "TLSv1.2", "TLSv1.3"),
        directive("ssl_session_cache", f"shared:{zone}:10m"),
        directive("ssl_session_timeout", "1d"),
    ]
