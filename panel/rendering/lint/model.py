"""Find mistakes in the site's fields. The findings do not depend on the engine, because every engine is rendered to
behave like nginx.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from panel.rendering import variables
from panel.rendering.errors import NotExpressible
from panel.rendering.handlers import REDIRECTS
from panel.rendering.lint.finding import Finding, Fix, Socket, part, setting
from panel.rendering.spec import Header, Location, ServerBlock

DECODED = {"uri": "$request_uri", "document_uri": "$request_uri"}
_UPLOADS = re.compile(r"/(?:uploads?|files|media|attachments|userfiles|images)/\Z", re.IGNORECASE)
_PHP = re.compile(r"\\\.(?:php|ph)")
# A group that can match a line feed: a negated set without it, a whitespace class, or a dot that matches everything.
_CAN_BREAK = re.compile(r"\[\^(?![^\]]*\\[nrs])|\(\?s|\\[sSDW]")


def of_block(block: ServerBlock, where: str, defaults: Collection[Socket]) -> Iterator[Finding]:
    yield from _no_default(block, where, defaults)
    yield from _no_index(block.try_files, block.index, where)
    yield from _split_headers(block.headers, "", where)
    if block.redirect_to_https and _answers_any(block):
        yield Finding(
            "host-redirect",
            where,
            "The redirect to HTTPS uses the visitor's Host header as its target.",
            "This default server block accepts any host name, so a manipulated link or a poisoned cache "
            "can redirect visitors to another site.",
        )


def of_location(block: ServerBlock, location: Location, where: str) -> Iterator[Finding]:
    yield from _alias(location, where)
    yield from _php_in_uploads(block, location, where)
    if location.match in ("", "^~") and location.pattern == "/" and location.handler in ("static", "php"):
        yield from _no_index(location.try_files, location.index or block.index, where)
    yield from _cache_key(location, where)
    yield from _grpc_without_http2(block, location, where)
    yield from _split_headers(location.headers, location.pattern if location.match in ("~", "~*") else "", where)
    if location.handler == "return" and location.return_code in REDIRECTS:
        yield from _host_redirect(block, location, where)
        yield from _split_redirect(location, where)


# --- the default server ---


def _no_default(block: ServerBlock, where: str, defaults: Collection[Socket]) -> Iterator[Finding]:
    for number, listen in enumerate(block.listens):
        if listen.default_server or (listen.address, listen.port) in defaults:
            continue
        place = f"{listen.address}:{listen.port}" if listen.address else str(listen.port)
        yield Finding(
            "no-default-server",
            f"{where}/listens/{number}",
            f"No site is the default server of port {place}.",
            "The site that the web server loads first handles requests with unknown host names. After you add a "
            "site, another site can be the first.",
            f"Make this server block the default of port {place}",
            setting(f"{where}/listens/{number}", default_server=True),
        )


def _answers_any(block: ServerBlock) -> bool:
    return any(listen.default_server for listen in block.listens) or any(name.startswith("~") for name in block.names)


# --- files ---


def _alias(location: Location, where: str) -> Iterator[Finding]:
    if location.match not in ("", "^~") or not location.alias.endswith("/") or location.pattern.endswith("/"):
        return
    yield Finding(
        "alias-traversal",
        where,
        f"The location {location.pattern} has no final slash, but its alias {location.alias} has a final slash.",
        f"Without Paddock's checks, a request for {location.pattern}../x would receive the file "
        f"{location.alias}../x, outside the folder. Paddock serves only {location.pattern} and paths below "
        f"{location.pattern}/; other paths get 404.",
        f"Change the location to {location.pattern}/",
        setting(where, pattern=f"{location.pattern}/"),
    )


def _no_index(try_files: tuple[str, ...], index: tuple[str, ...], where: str) -> Iterator[Finding]:
    """Yield a finding if try_files of the location ignores folders. A fallback page also handles folders; a fallback
    status does not.
    """
    if "$uri" not in try_files or "$uri/" in try_files or not try_files[-1].startswith("="):
        return
    items = list(try_files)
    items.insert(items.index("$uri") + 1, "$uri/")
    pages = ", ".join(index) or "index.html"
    yield Finding(
        "try-files-slash",
        where,
        "try_files checks files but not folders: $uri/ is missing.",
        f"Requests for folders, including /, get status {try_files[-1][1:]} although the site has an index page "
        f"({pages}).",
        "Add $uri/ after $uri to try_files",
        setting(where, try_files=items),
    )


def _php_in_uploads(block: ServerBlock, location: Location, where: str) -> Iterator[Finding]:
    is_plain = location.match == "" and location.handler == "static" and _UPLOADS.search(location.pattern)
    runs = [item for item in block.locations if item.handler == "php" and item.match in ("~", "~*")]
    runs = [item for item in runs if _PHP.search(item.pattern) and not item.pattern.startswith("^")]
    if not is_plain or not runs or _is_shut(block, location):
        return
    yield Finding(
        "php-in-uploads",
        where,
        f"The web server runs PHP files below {location.pattern}.",
        f"The regular expression {runs[0].pattern} takes precedence over this prefix. Anyone who can upload a file "
        "to this folder can run code on the host.",
        f"Deny PHP files below {location.pattern}",
        _shutting(where, _shut(location)),
    )


def _shut(location: Location) -> str:
    return f"^{re.escape(location.pattern)}.*" + r"\.ph(?:p|ar|tml)"


def _is_shut(block: ServerBlock, location: Location) -> bool:
    return any(item.handler == "deny" and item.pattern == _shut(location) for item in block.locations)


def _shutting(where: str, pattern: str) -> Fix:
    def fix(definition: dict[str, Any]) -> None:
        locations = part(definition, where.rsplit("/", 2)[0])["locations"]
        locations.insert(0, {"match": "~*", "pattern": pattern, "handler": "deny"})

    return fix


# --- gRPC ---


def _grpc_without_http2(block: ServerBlock, location: Location, where: str) -> Iterator[Finding]:
    is_grpc = location.handler == "proxy" and location.upstream_protocol == "grpc"
    if not is_grpc or any(listen.http2 for listen in block.listens):
        return
    yield Finding(
        "grpc-http2",
        where,
        "The location passes gRPC calls on, but no port of the server block supports HTTP/2.",
        "gRPC clients need HTTP/2, so their calls fail. Add http2 to a port with TLS, for example 443 tls http2.",
    )


# --- response caching ---


def _cache_key(location: Location, where: str) -> Iterator[Finding]:
    """Yield a finding if the location has a custom cache key that does not distinguish paths or hosts."""
    key = location.cache.key if location.cache else ""
    if not key:
        return
    named = set(_names(key))
    lacking = [] if named & {"request_uri", "uri"} else ["the path"]
    lacking += [] if named & {"host", "http_host", "server_name"} else ["the host"]
    if not lacking:
        return
    yield Finding(
        "cache-key",
        where,
        f"The cache key {key} does not contain {' and '.join(lacking)}.",
        "Visitors can receive a response that the web server cached for another URL.",
        "Use scheme, host, path, and query as the cache key",
        setting(where, cache_key=""),
    )


# --- visitor input in response headers ---


def _names(value: str) -> list[str]:
    try:
        return [item.name for item in variables.parse(value, "") if isinstance(item, variables.Variable)]
    except NotExpressible:
        return []  # reported at its own field


def to_own_name(block: ServerBlock, value: str) -> tuple[str, str, str] | None:
    """Return details of a redirect to the host in the visitor's Host header; None for other redirects.

    The details are (variable with the host, one of the block's own names or "", target of the redirect with this name).
    """
    match = re.match(r"(?:https?:|\$scheme:)?//\$\{?(http_host|host)\b\}?", value)
    if match is None or not _answers_any(block):
        return None
    name = next((name for name in block.names if not name.startswith("~") and "*" not in name), "").lstrip(".")
    return match[1], name, value[: match.end()].rpartition("//")[0] + "//" + name + value[match.end() :]


def _host_redirect(block: ServerBlock, location: Location, where: str) -> Iterator[Finding]:
    led = to_own_name(block, location.return_value)
    if led is None:
        return
    variable, name, target = led
    yield Finding(
        "host-redirect",
        where,
        f"The target of the redirect contains ${variable}, a host name that the visitor sends.",
        "This server block accepts any host name, so a manipulated link or a poisoned cache can "
        "redirect visitors to another site.",
        f"Redirect to {name}" if name else "",
        setting(where, return_value=target) if name else None,
    )


def _split_redirect(location: Location, where: str) -> Iterator[Finding]:
    pattern = location.pattern if location.match in ("~", "~*") else ""
    if not _breaks(location.return_value, pattern):
        return
    safe = encoded(location.return_value)
    is_safe = not _breaks(safe, pattern)
    yield Finding(
        "response-splitting",
        where,
        f"The redirect target {location.return_value} contains a decoded part of the URL.",
        "%0d%0a in the URL becomes a line break in the response, so a manipulated link can add headers, "
        "cookies, and text.",
        f"Redirect to {safe}" if is_safe else "",
        setting(where, return_value=safe) if is_safe else None,
    )


def _split_headers(headers: tuple[Header, ...], pattern: str, where: str) -> Iterator[Finding]:
    for header in headers:
        if not _breaks(header.value, pattern):
            continue
        changed = [{"name": item.name, "value": encoded(item.value), "always": item.always} for item in headers]
        is_safe = not _breaks(encoded(header.value), pattern)
        yield Finding(
            "response-splitting",
            where,
            f"The header {header.name} contains a decoded part of the URL.",
            "%0d%0a in the URL becomes a line break in the response, so a manipulated link can add "
            "headers, cookies, and text.",
            f"Set the header to {encoded(header.value)}" if is_safe else "",
            setting(where, headers=changed) if is_safe else None,
        )


def _breaks(value: str, pattern: str) -> bool:
    """Return whether `value` can contain a line break that was percent-encoded in the request's path."""
    named = _names(value)
    captured = any(name.isdigit() or name in variables.captures_of(pattern) for name in named)
    return decoded(value) or bool(captured and _CAN_BREAK.search(pattern))


def decoded(value: str) -> bool:
    """Return whether the value uses the decoded path. Captures do not count, because a redirect encodes them again."""
    return any(name in DECODED for name in _names(value))


def encoded(value: str) -> str:
    """Return the value with `$request_uri` in place of `$uri` and a following query variable: the path and query as the
    visitor sent them.
    """
    return re.sub(
        r"\$\{?(?:document_)?uri\}?(?![a-z_])(?:\$is_args\$(?:args|query_string)|\?\$args)?", "$request_uri", value
    )
