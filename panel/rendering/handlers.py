"""Check the requirements of a location's handler for all engines, and find the parts that the handler refers to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from panel.rendering import checks, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import BasicAuth, Location, PhpPool, SiteSpec, Upstream

URL_PATH = re.compile(r"/[A-Za-z0-9/._~!&'()*+,;=:@%-]*\Z")
PROTOCOLS = {"http": "HTTP", "grpc": "gRPC", "uwsgi": "uWSGI"}
REDIRECTS = (301, 302, 303, 307, 308)


def check(source: Location, at: str) -> None:
    """Raise NotExpressible if the handler lacks a setting or two of its fields contradict each other."""
    if source.match in ("~", "~*"):
        checks.pcre(source.pattern, f"{at}/pattern")
    if source.root and source.alias:
        raise NotExpressible(f"{at}/alias", "a location has either a root or an alias; remove one")
    if source.handler == "return":
        _check_return(source, at)
    if source.handler == "proxy":
        _check_proxy(source, at)
    for number, item in enumerate(source.try_files):
        try_files_item(item, f"{at}/try_files/{number}", last=number == len(source.try_files) - 1)
    if len(source.try_files) == 1:
        raise NotExpressible(f"{at}/try_files", "try_files needs a file and a fallback, for example $uri =404")


def _check_return(source: Location, at: str) -> None:
    if source.return_code is None:
        raise NotExpressible(f"{at}/return_code", "the response has no status; enter a status, for example 301")
    checks.status(source.return_code, f"{at}/return_code")
    redirects = source.return_code in REDIRECTS
    checks.text(source.return_value, f"{at}/return_value", lines=not redirects)
    if redirects and not source.return_value:
        raise NotExpressible(
            f"{at}/return_value", f"status {source.return_code} needs a target URL, for example https://www.example.com"
        )
    if redirects and " " in source.return_value:
        raise NotExpressible(f"{at}/return_value", "URLs cannot contain spaces; use %20")


def protocol_faults(source: Location) -> Iterator[tuple[str, str]]:
    """Yield (field, reason) for each field of a proxying location that the protocol of its upstream does not use."""
    if source.handler != "proxy" or source.upstream_protocol == "http":
        return
    name = PROTOCOLS[source.upstream_protocol]
    if source.proxy_uri:
        yield (
            "proxy_uri",
            (f"{name} upstreams receive the path of the request unchanged; leave the replacement of the prefix empty"),
        )
    if source.websocket:
        yield "websocket", f"{name} upstreams do not support WebSocket; turn WebSocket upgrades off"
    if source.upstream_protocol == "uwsgi" and source.upstream_tls:
        yield "upstream_tls", "web servers connect to uWSGI upstreams without TLS; turn off TLS to the upstream"
    if source.upstream_protocol == "grpc" and source.cache is not None:
        yield "cache", "web servers cannot cache gRPC responses; leave response caching off"


def _check_proxy(source: Location, at: str) -> None:
    for field, message in protocol_faults(source):
        raise NotExpressible(f"{at}/{field}", message)
    if not source.proxy_uri:
        return
    if source.match in ("~", "~*"):
        raise NotExpressible(
            f"{at}/proxy_uri", "a regular expression has no prefix to replace; leave the replacement empty"
        )
    checks.text(source.proxy_uri, f"{at}/proxy_uri")
    if not URL_PATH.match(source.proxy_uri):
        raise NotExpressible(
            f"{at}/proxy_uri", f"“{source.proxy_uri}” is not a path; start the replacement of the prefix with /"
        )


def try_files_item(item: str, field: str, *, last: bool) -> str:
    checks.text(item, field)
    if item.startswith("="):
        if not last or not item[1:].isdigit():
            raise NotExpressible(field, f"“{item}”: a status such as =404 must be the last entry")
        checks.status(int(item[1:]), field)
    elif not item.startswith(("/", "$")) or ".." in item.split("/"):
        raise NotExpressible(field, f"“{item}” is neither a path that starts with / nor a variable such as $uri")
    return item


def asks_access(source: Location) -> bool:
    """Return whether the location has access rules or asks for a password."""
    return bool(source.access_rules) or source.basic_auth is not None


def captures(source: Location) -> frozenset[str]:
    return variables.captures_of(source.pattern) if source.match in ("~", "~*") else frozenset()


def upstream_of(spec: SiteSpec, source: Location, at: str) -> tuple[int, Upstream]:
    """Return (index in `spec.upstreams`, upstream) of a proxying location; raise NotExpressible if the site has no such
    upstream.
    """
    for number, upstream in enumerate(spec.upstreams):
        if upstream.name == source.upstream:
            return number, upstream
    raise NotExpressible(
        f"{at}/upstream", f"site {spec.name} has no upstream “{source.upstream}”; choose an existing upstream"
    )


def pool_of(spec: SiteSpec, source: Location, at: str) -> tuple[int, PhpPool]:
    """Return (index in `spec.php_pools`, PHP pool) of a PHP location; raise NotExpressible if the site has no such
    pool.
    """
    for number, pool in enumerate(spec.php_pools):
        if pool.name == source.php_pool:
            return number, pool
    raise NotExpressible(
        f"{at}/php_pool", f"site {spec.name} has no PHP pool “{source.php_pool}”; choose an existing PHP pool"
    )


def php_values(pool: PhpPool, at: str) -> str:
    """Return the pool's settings in the format of PHP_VALUE: `name=value` lines."""
    lines = []
    for number, (name, value) in enumerate(pool.settings):
        checks.word(name, checks.INI_NAME, f"{at}/settings/{number}", "a PHP setting's name")
        lines.append(f"{name}={checks.text(value, f'{at}/settings/{number}')}")
    return "\n".join(lines)


def realm(value: str, field: str) -> str:
    if not value:
        raise NotExpressible(field, "the realm is empty; enter the text that browsers show in the password dialog")
    return checks.text(value, field)


def htpasswd(auth: BasicAuth, at: str) -> str:
    """Return the text of the password file: `name:$2y$...` lines, which nginx (by crypt) and Apache can verify."""
    lines = []
    for number, (name, digest) in enumerate(auth.users):
        checks.word(name, checks.USER_NAME, f"{at}/users/{number}", "a user name without spaces and colons")
        checks.word(digest, checks.BCRYPT, f"{at}/users/{number}", "a bcrypt hash")
        lines.append(f"{name}:$2y${digest[4:]}\n")
    return "".join(lines)
