"""Find the URL at which a browser opens a site."""

from __future__ import annotations

from panel.rendering import names
from panel.rendering.spec import SiteSpec

_USUAL = {True: 443, False: 80}  # ports that a URL does not name, by TLS


def open_url(spec: SiteSpec) -> str:
    """Return the URL of the first server block with an exact name and a listener with TLS; without TLS if no block has
    both. "" if there is no such block.
    """
    for wants_tls in (True, False):
        for block in spec.blocks:
            name = next((name for name in block.names if names.kind(name) == "exact"), "")
            listen = next((row for row in block.listens if row.tls == wants_tls), None)
            if name and listen:
                port = "" if listen.port == _USUAL[wants_tls] else f":{listen.port}"
                return f"{'https' if wants_tls else 'http'}://{name}{port}/"
    return ""
