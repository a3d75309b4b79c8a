"""Find the features of a site that an engine cannot express, before deployment.

The functions access no database and no host. The capabilities of the engines are a table in the package `capability`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from panel.rendering import apache
from panel.rendering.apache.modules import missing as missing_modules
from panel.rendering.capability import Context, Row, Severity
from panel.rendering.capability.apache import APACHE
from panel.rendering.capability.nginx import NATIVE, NGINX
from panel.rendering.capability.openlitespeed import OPENLITESPEED
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import (
    ENGINE_NAMES,
    AccessRule,
    BasicAuth,
    Cache,
    CacheTime,
    ClientCertificates,
    ErrorPage,
    Header,
    Listen,
    Location,
    Maintenance,
    PhpPool,
    RateLimit,
    Rewrite,
    ServerBlock,
    SiteSpec,
    StreamRoute,
    StreamServer,
    TlsFiles,
    Upstream,
    UpstreamServer,
    WebServerSpec,
)

OFFERS = {"nginx": NGINX, "apache": APACHE, "openlitespeed": OPENLITESPEED, "native": NATIVE}

_KINDS = (
    SiteSpec,
    Maintenance,
    ServerBlock,
    Listen,
    TlsFiles,
    ClientCertificates,
    Upstream,
    UpstreamServer,
    PhpPool,
    StreamServer,
    StreamRoute,
    Location,
    Header,
    ErrorPage,
    AccessRule,
    BasicAuth,
    Rewrite,
    RateLimit,
    Cache,
    CacheTime,
)
# Every field of SiteSpec.
MEMBERS: dict[str, tuple[str, ...]] = {
    kind.__name__: tuple(field.name for field in dataclasses.fields(kind)) for kind in _KINDS
}
TABLE: dict[str, Row] = {
    f"{kind}.{member}": {
        engine: rows[f"{kind}.{member}"] for engine, rows in OFFERS.items() if f"{kind}.{member}" in rows
    }
    for kind, members in MEMBERS.items()
    for member in members
}
# Fields of Location that only some handlers use.
_FILES, _BACKENDS = frozenset({"static", "php"}), frozenset({"php", "proxy"})
READ_BY: dict[str, frozenset[str]] = {
    **dict.fromkeys(("root", "alias", "index", "autoindex", "try_files"), _FILES),
    **dict.fromkeys(("php_pool", "split_path_info"), frozenset({"php"})),
    **dict.fromkeys(("upstream", "upstream_protocol", "upstream_tls", "proxy_uri", "websocket"), frozenset({"proxy"})),
    **dict.fromkeys(("request_headers", "connect_timeout_s", "read_timeout_s", "cache"), _BACKENDS),
    **dict.fromkeys(("return_code", "return_value"), frozenset({"return"})),
    # Fixed responses are sent before access control, and a denied response has no settings of its own.
    **dict.fromkeys(("access_rules", "basic_auth", "rate_limit", "connection_limit"), _FILES | _BACKENDS),
    **dict.fromkeys(("headers", "expires", "client_max_body_mb", "gzip"), _FILES | _BACKENDS | {"return"}),
}


@dataclass(frozen=True)
class Difference:
    """One difference between a setting of a site and an engine's behavior.

    `field` is a JSON pointer into the SiteSpec, `what` the different behavior, `nearest` the configuration that is
    rendered instead.
    """

    field: str
    engine: str
    severity: Severity
    what: str
    nearest: str


def place(spec: SiteSpec, field: str) -> str:
    """Return the name of the part of the site that a difference's `field` points to; "" for the whole site."""
    parts = field.strip("/").split("/")
    words: list[str] = []
    if parts[0] == "blocks" and len(parts) > 1:
        block = spec.blocks[int(parts[1])]
        words.append(f"server block {int(parts[1]) + 1}")
        if len(parts) > 3 and parts[2] == "locations":
            location = block.locations[int(parts[3])]
            words.append(" ".join(filter(None, ("location", location.match, location.pattern))))
        elif len(parts) > 3 and parts[2] == "listens":
            words.append(f"port {block.listens[int(parts[3])].port}")
    elif parts[0] == "upstreams" and len(parts) > 1:
        words.append(f"upstream {spec.upstreams[int(parts[1])].name}")
    elif parts[0] == "php_pools" and len(parts) > 1:
        words.append(f"PHP pool {spec.php_pools[int(parts[1])].name}")
    elif parts[0] == "stream_servers" and len(parts) > 1:
        words.append(f"stream server {spec.stream_servers[int(parts[1])].name}")
    return ", ".join(words)


def differences(spec: SiteSpec, web_server: WebServerSpec) -> list[Difference]:
    """Return all differences between the site's settings and the engine's behavior: first those of fields, in the order
    of the spec, then fields that a location's handler ignores, then Apache's missing modules.
    """
    found = list(_walk(spec, "", None, spec, web_server))
    found += [item for number, block in enumerate(spec.blocks) for item in _unread(block, number, web_server)]
    if web_server.engine == "apache" and web_server.layout != "sites":
        found += _modules(spec, web_server)
    return found


def overview() -> dict[str, dict[str, Literal["same", "different", "not_offered"]]]:
    """Map each field of the spec to a dict of engine -> "same", "different" or "not_offered". The result holds for no
    particular site: it is the worst case over all values of the field.
    """
    result: dict[str, dict[str, Literal["same", "different", "not_offered"]]] = {}
    for member, row in TABLE.items():
        severities = {engine: {verdict.severity for verdict in row.get(engine, ())} for engine in ENGINE_NAMES}
        result[member] = {
            engine: "not_offered" if "not_offered" in found else "different" if found else "same"
            for engine, found in severities.items()
        }
    return result


def _walk(
    owner: Any, pointer: str, block: ServerBlock | None, spec: SiteSpec, web_server: WebServerSpec
) -> Iterator[Difference]:
    block = owner if isinstance(owner, ServerBlock) else block
    kind: Any = type(owner)
    for name, default, row in _members(kind):
        value = getattr(owner, name)
        if value == default:  # such a field holds no other part of a site
            continue
        at = f"{pointer}/{name}"
        for verdict in row.get(web_server.engine, ()):
            if verdict.when(Context(owner, block, spec, web_server)):
                yield Difference(at, web_server.engine, verdict.severity, verdict.what, verdict.nearest)
        for inner, where in _inner(value, at):
            yield from _walk(inner, where, block, spec, web_server)


@cache
def _members(kind: Any) -> tuple[tuple[str, Any, Row], ...]:
    """Return (name, default, table row) of each field of the spec class `kind`.

    The table row has each engine's differences for values other than the default.
    """
    return tuple((item.name, item.default, TABLE[f"{kind.__name__}.{item.name}"]) for item in dataclasses.fields(kind))


def _inner(value: Any, at: str) -> Iterator[tuple[Any, str]]:
    if dataclasses.is_dataclass(value):
        yield value, at
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            if dataclasses.is_dataclass(item):
                yield item, f"{at}/{number}"


def _unread(block: ServerBlock, number: int, web_server: WebServerSpec) -> Iterator[Difference]:
    """Yield a difference for each field that the location's handler ignores on every engine."""
    defaults = {name: default for name, default, _ in _members(Location)}
    for n, location in enumerate(block.locations):
        for member, handlers in READ_BY.items():
            if location.handler not in handlers and getattr(location, member) != defaults[member]:
                yield Difference(
                    f"/blocks/{number}/locations/{n}/{member}",
                    web_server.engine,
                    "not_offered",
                    f"this setting has no effect in a location with the handler “{location.handler}”",
                    "Paddock ignores the setting",
                )


def _modules(spec: SiteSpec, web_server: WebServerSpec) -> list[Difference]:
    try:
        names = sorted(missing_modules(apache.site(spec, web_server), web_server))
    except NotExpressible:
        return []  # rendering reports the problem more precisely
    return [
        Difference(
            "",
            "apache",
            "not_offered",
            f"Apache has not loaded mod_{name}, which this site needs",
            f"load the module mod_{name} on the host, then check the host",
        )
        for name in names
    ]
