"""Where nginx itself, or this version of it, does less than the model says."""

from __future__ import annotations

from panel.rendering.capability import Context, Verdict, differs, missing
from panel.rendering.checks import version_of
from panel.rendering.nginx.scope import Dialect


def _old(context: Context) -> bool:
    return not Dialect.of(context.install).http3


def _no_default(context: Context) -> bool:
    return not _old(context) and not context.owner.default_server


def _balanced_by_address(context: Context) -> bool:
    owners = [item for item in context.spec.upstreams if context.owner in item.servers]
    return any(item.balancing == "ip_hash" for item in owners)


def _port_wide(context: Context) -> bool:
    return version_of(context.install) < (1, 25, 1)


NGINX: dict[str, tuple[Verdict, ...]] = {
    "Listen.http3": (
        missing("HTTP/3 needs nginx 1.25 or later built with its module", "HTTP/2 stays on", _old),
        differs(
            "without being the port's default server it cannot ask for one socket per worker, so with several workers "
            "connections may be lost when they migrate",
            "make one site the default server of this port",
            _no_default,
        ),
    ),
    "Listen.http2": (
        differs("before nginx 1.25.1 HTTP/2 is on or off for a whole port", "on for all its sites", _port_wide),
    ),
    "ServerBlock.brotli": (
        missing("Brotli needs the module ngx_brotli, which this nginx is not known to have", "gzip, where it is on",
                lambda context: not Dialect.of(context.install).brotli),
    ),
    "UpstreamServer.backup": (
        missing("nginx has no backup servers when balancing by client address", "the server is left out",
                _balanced_by_address),
    ),
}  # fmt: skip
NATIVE: dict[str, tuple[Verdict, ...]] = {
    "UpstreamServer.backup": NGINX["UpstreamServer.backup"],
}
