"""Limits of nginx itself, or of some of its versions, and of gallop."""

from __future__ import annotations

from panel.rendering import streams
from panel.rendering.capability import TLS_CHALLENGES, Context, Verdict, differs, missing, no_streams
from panel.rendering.checks import version_of
from panel.rendering.nginx.scope import Dialect


def _old(context: Context) -> bool:
    return not Dialect.of(context.web_server).http3


def _no_default(context: Context) -> bool:
    return not _old(context) and not context.owner.default_server


def _balanced_by_address(context: Context) -> bool:
    owners = [item for item in context.spec.upstreams if context.owner in item.servers]
    return any(item.balancing == "ip_hash" for item in owners)


def _port_wide(context: Context) -> bool:
    return version_of(context.web_server) < (1, 25, 1)


NGINX: dict[str, tuple[Verdict, ...]] = {
    "SiteSpec.tls_challenge_port": (TLS_CHALLENGES,),
    "SiteSpec.stream_servers": no_streams(streams.NO_MODULE, streams.NO_PLACE),
    "Listen.http3": (
        missing("HTTP/3 needs nginx 1.25 or later with the HTTP/3 module",
                "clients use HTTP/2 if it is on, otherwise HTTP/1.1", _old),
        differs(
            "without a default server on the port, nginx cannot open a socket for each worker, so HTTP/3 "
            "connections can break when a client changes its address",
            "make a site the default server of this port",
            _no_default,
        ),
    ),
    "Listen.http2": (
        differs("before nginx 1.25.1, HTTP/2 is on or off for a whole port",
                "nginx turns HTTP/2 on for all sites on the port",
                _port_wide),
    ),
    "ServerBlock.brotli": (
        missing("Brotli needs the module ngx_brotli, which this nginx does not seem to have",
                "nginx compresses with gzip if the site turns gzip on",
                lambda context: not Dialect.of(context.web_server).brotli),
    ),
    "UpstreamServer.backup": (
        missing("nginx does not support backup servers in an upstream that balances by client address",
                "Paddock leaves the backup server out",
                _balanced_by_address),
    ),
}  # fmt: skip
NATIVE: dict[str, tuple[Verdict, ...]] = {
    "UpstreamServer.backup": NGINX["UpstreamServer.backup"],
}
