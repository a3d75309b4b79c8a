"""Render one location in nginx's directives."""

from __future__ import annotations

from collections.abc import Sequence

from panel.rendering import caching, checks, confinement, expiry, handlers, rewriting, snippets, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.headers import check as check_headers
from panel.rendering.headers import merged
from panel.rendering.locations import Place
from panel.rendering.nginx import confining
from panel.rendering.nginx.cache import STATUS, cached
from panel.rendering.nginx.quoting import bounded, no_variables, prefix
from panel.rendering.nginx.scope import Scope
from panel.rendering.nginx.types import FORWARDED_HEADERS, UWSGI_PARAMS
from panel.rendering.spec import Header, Location, Rewrite
from panel.rendering.tree import Node, Raw, block, directive

SCRIPT_GUARD = ("$fastcgi_script_name", "=404")  # never pass a missing script to PHP
PATH_INFO_SPLIT = r"^(.+?\.php)(/.*)$"


def location(scope: Scope, place: Place, everywhere: tuple[Header, ...]) -> Node:
    source, at = place.location, place.pointer
    handlers.check(source, at)
    pattern = bounded(checks.text(source.pattern, f"{at}/pattern"), f"{at}/pattern")
    words = [source.match, pattern] if source.match else [pattern]
    body = rewrites(scope, source.rewrites, f"{at}/rewrites", checked=confinement.made_paths(source))
    if source.handler == "deny":
        return block("location", *words, body=[*body, directive("deny", "all")])
    body += [*_access(scope, source, at), *_limits(scope, source, at), *_HANDLERS[source.handler](scope, place)]
    body += gzip(source.gzip)
    if source.gzip == "off" and scope.brotli:  # “compress responses” covers gzip and Brotli
        body.append(directive("brotli", "off"))
    if source.expires:
        expiry.parse(source.expires, f"{at}/expires")
        body.append(directive("expires", *source.expires.split(" ")))
    check_headers(source.headers, f"{at}/headers")
    if source.headers or _tells_cache(source):
        body += add_headers(scope, everywhere, at, source)
    if source.snippet:
        body.append(Raw(snippets.require(source.snippet, scope.web_server, f"{at}/snippet", "location")))
    return block("location", *words, body=body)


def gzip(setting: str) -> list[Node]:
    if setting == "on":
        return [directive("gzip", "on"), directive("gzip_vary", "on")]
    return [directive("gzip", "off")] if setting == "off" else []


def brotli(scope: Scope, setting: str, types: Sequence[str] = ()) -> list[Node]:
    """Return Brotli directives; [] if `setting` is "", or if the web server is not known to support Brotli
    (capability/nginx.py reports this).
    """
    if not (setting and scope.dialect.brotli):
        return []
    scope.brotli = setting == "on"
    if not scope.brotli:
        return [directive("brotli", "off")]
    return [directive("brotli", "on"), *([directive("brotli_types", *types)] if types else [])]


def add_headers(scope: Scope, everywhere: tuple[Header, ...], at: str, source: Location | None = None) -> list[Node]:
    """Return the `add_header` directives of a location, or of the server block if `source` is None.

    In nginx a location with its own headers inherits none, so the server block's headers (`everywhere`) are repeated.
    """
    lines: list[Node] = []
    known = scope.own_variables | (handlers.captures(source) if source else frozenset())
    for header, number in merged(everywhere, source.headers if source else ()):
        field = f"{at}/headers" if number is None else f"{at}/headers/{number}/value"
        value = scope.dollars.complex(header.value, field, known)
        always = ["always"] if header.always else []
        lines.append(directive("add_header", header.name, value, *always, gap=not lines))
    if source and _tells_cache(source):
        lines.append(directive("add_header", STATUS, "$upstream_cache_status", "always", gap=not lines))
    return lines


def _tells_cache(source: Location) -> bool:
    return caching.caches(source) and source.cache is not None and source.cache.status_header


def rewrites(scope: Scope, items: tuple[Rewrite, ...], at: str, *, checked: tuple[Rewrite, ...]) -> list[Node]:
    """Return `rewrite` directives. Before those in `checked`, whose new path can name a file, further directives check
    the new path, unless it cannot leave the site's folder.
    """
    lines: list[Node] = []
    for number, item in enumerate(items):
        rewriting.check(item, f"{at}/{number}")
        lines += confining.before_rewrite(scope, item, f"{at}/{number}") if item in checked else []
        pattern = bounded(item.pattern, f"{at}/{number}/pattern")
        known = variables.captures_of(item.pattern)
        to = scope.dollars.complex(item.replacement, f"{at}/{number}/replacement", known)
        lines.append(directive("rewrite", pattern, to, *([item.flag] if item.flag else []), gap=not lines))
    return lines


def _access(scope: Scope, source: Location, at: str) -> list[Node]:
    lines: list[Node] = []
    for number, rule in enumerate(source.access_rules):
        lines.append(directive(rule.action, checks.source(rule.source, f"{at}/access_rules/{number}/source")))
    if source.basic_auth is not None:
        field = f"{at}/basic_auth/realm"
        realm = handlers.realm(source.basic_auth.realm, field)
        if realm == "off":
            raise NotExpressible(field, "nginx asks for no password if the realm is “off”; use another realm")
        # nginx quotes the realm without escaping; RFC 9110 section 5.6.4 requires escapes for these two characters.
        escaped = realm.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(directive("auth_basic", scope.dollars.literal(escaped, field)))
        path = checks.path(source.basic_auth.path, f"{at}/basic_auth/path")
        lines.append(directive("auth_basic_user_file", no_variables(path, f"{at}/basic_auth/path")))
    return lines


def _limits(scope: Scope, source: Location, at: str) -> list[Node]:
    lines: list[Node] = []
    if source.rate_limit is not None:
        zone, rate = scope.zone("req", at), source.rate_limit
        scope.zones.append(
            directive("limit_req_zone", "$binary_remote_addr", f"zone={zone}:10m", f"rate={rate.requests_per_s}r/s")
        )
        burst = [f"burst={rate.burst}", "nodelay"] if rate.burst else []
        lines += [directive("limit_req", f"zone={zone}", *burst), directive("limit_req_status", 429)]
    if source.connection_limit is not None:
        zone = scope.zone("conn", at)
        scope.zones.append(directive("limit_conn_zone", "$binary_remote_addr", f"zone={zone}:10m"))
        lines += [directive("limit_conn", zone, source.connection_limit), directive("limit_conn_status", 429)]
    if source.client_max_body_mb is not None:
        lines.append(directive("client_max_body_size", f"{source.client_max_body_mb}m"))
    return lines


def _static(scope: Scope, place: Place) -> list[Node]:
    return [*_files(scope, place), *_try_files(scope, place.location.try_files, f"{place.pointer}/try_files", place)]


def _files(scope: Scope, place: Place) -> list[Node]:
    source, at = place.location, place.pointer
    lines: list[Node] = []
    if source.root:
        lines.append(directive("root", no_variables(checks.path(source.root, f"{at}/root"), f"{at}/root")))
    if source.alias:
        lines += [*confining.of_alias(source), directive("alias", _alias(scope, place))]
    if source.index:
        lines.append(directive("index", *index_files(source.index, f"{at}/index")))
    if source.autoindex is not None:
        lines.append(directive("autoindex", "on" if source.autoindex else "off"))
    return lines


def _alias(scope: Scope, place: Place) -> str:
    source, field = place.location, f"{place.pointer}/alias"
    path = checks.path(source.alias, field)
    if place.is_regex:
        return scope.dollars.complex(path, field, handlers.captures(source))
    return no_variables(path, field)


def index_files(names: tuple[str, ...], at: str) -> list[str]:
    fields = [(name, f"{at}/{number}") for number, name in enumerate(names)]
    return [no_variables(checks.file_name(name, field), field) for name, field in fields]


def _try_files(scope: Scope, items: tuple[str, ...], at: str, place: Place) -> list[Node]:
    return confining.try_files(scope, items, at, place)


def _php(scope: Scope, place: Place) -> list[Node]:
    source, at = place.location, place.pointer
    number, pool = handlers.pool_of(scope.spec, source, at)
    lines = _files(scope, place)
    if source.split_path_info:
        lines.append(directive("fastcgi_split_path_info", PATH_INFO_SPLIT))
        lines.append(directive("set", "$path_info", "$fastcgi_path_info", comment="try_files would reset it"))
    own = _try_files(scope, source.try_files, f"{at}/try_files", place)
    lines += own or [directive("try_files", *SCRIPT_GUARD)]
    # With alias, $document_root is the aliased folder, to which nginx would append the script's name.
    script = "$request_filename" if source.alias else "$document_root$fastcgi_script_name"
    lines += [directive("include", "fastcgi_params"), directive("fastcgi_param", "SCRIPT_FILENAME", script)]
    if source.split_path_info:
        lines.append(directive("fastcgi_param", "PATH_INFO", "$path_info"))
    if values := handlers.php_values(pool, f"/php_pools/{number}"):
        value = scope.dollars.literal(values, f"/php_pools/{number}/settings")
        lines.append(directive("fastcgi_param", "PHP_VALUE", value))
    lines += _header_params("fastcgi", scope, source, at)
    if source.index or not place.is_regex:
        lines.append(directive("fastcgi_index", source.index[0] if source.index else "index.php"))
    lines += [*_timeouts("fastcgi", source), *cached(scope, place)]
    address = checks.address(pool.address, f"/php_pools/{number}/address")
    return [*lines, directive("fastcgi_pass", address)]


def _header_params(module: str, scope: Scope, source: Location, at: str) -> list[Node]:
    """Return `fastcgi_param` or `uwsgi_param` directives that pass the location's request headers on as CGI variables
    (RFC 3875 section 4.1.18).
    """
    check_headers(source.request_headers, f"{at}/request_headers")
    lines: list[Node] = []
    for n, header in enumerate(source.request_headers):
        value = scope.dollars.complex(header.value, f"{at}/request_headers/{n}/value", handlers.captures(source))
        lines.append(directive(f"{module}_param", "HTTP_" + header.name.upper().replace("-", "_"), value))
    return lines


def _timeouts(module: str, source: Location) -> list[Node]:
    lines: list[Node] = []
    if source.connect_timeout_s is not None:
        lines.append(directive(f"{module}_connect_timeout", f"{source.connect_timeout_s}s"))
    if source.read_timeout_s is not None:
        lines.append(directive(f"{module}_read_timeout", f"{source.read_timeout_s}s"))
        lines.append(directive(f"{module}_send_timeout", f"{source.read_timeout_s}s"))
    return lines


def _proxy(scope: Scope, place: Place) -> list[Node]:
    return _PROTOCOLS[place.location.upstream_protocol](scope, place)


def _upstream_name(scope: Scope, place: Place) -> str:
    _, upstream = handlers.upstream_of(scope.spec, place.location, place.pointer)
    return f"{prefix(scope.spec.name)}_{upstream.name}"


def _grpc(scope: Scope, place: Place) -> list[Node]:
    source, at = place.location, place.pointer
    scheme = "grpcs" if source.upstream_tls else "grpc"
    lines: list[Node] = [directive("grpc_pass", f"{scheme}://{_upstream_name(scope, place)}")]
    headers = _own_headers(scope, source, at, FORWARDED_HEADERS)
    lines += [directive("grpc_set_header", name, value) for name, value in headers.items()]
    if source.upstream_tls:
        lines += [directive("grpc_ssl_server_name", "on"), directive("grpc_ssl_name", "$host")]
    return [*lines, *_timeouts("grpc", source)]


def _uwsgi(scope: Scope, place: Place) -> list[Node]:
    source, at = place.location, place.pointer
    lines: list[Node] = [directive("uwsgi_pass", _upstream_name(scope, place))]
    lines += [directive("uwsgi_param", name, *words) for name, words in UWSGI_PARAMS.items()]
    lines += _header_params("uwsgi", scope, source, at)
    return [*lines, *_timeouts("uwsgi", source), *cached(scope, place)]


def _http(scope: Scope, place: Place) -> list[Node]:
    source, at = place.location, place.pointer
    scheme = "https" if source.upstream_tls else "http"
    uri = no_variables(source.proxy_uri, f"{at}/proxy_uri")
    lines: list[Node] = [
        directive("proxy_pass", f"{scheme}://{_upstream_name(scope, place)}{uri}"),
        directive("proxy_http_version", "1.1"),
    ]
    for name, value in _request_headers(scope, source, at).items():
        lines.append(directive("proxy_set_header", name, value))
    if source.upstream_tls:
        lines += [directive("proxy_ssl_server_name", "on"), directive("proxy_ssl_name", "$host")]
    return [*lines, *_timeouts("proxy", source), *cached(scope, place)]


def _request_headers(scope: Scope, source: Location, at: str) -> dict[str, str]:
    """Return the request headers for an HTTP upstream, as name -> value: Paddock's usual headers, and those of the
    location.
    """
    headers = {**FORWARDED_HEADERS, "Connection": ""}  # empty: keeps the upstream connection alive
    if source.websocket:
        scope.websocket = True
        headers |= {"Upgrade": "$http_upgrade", "Connection": f"${scope.variable('connection')}"}
    return _own_headers(scope, source, at, headers)


def _own_headers(scope: Scope, source: Location, at: str, usual: dict[str, str]) -> dict[str, str]:
    """Return the `usual` request headers and those of the location, which replace usual headers of the same name."""
    headers = dict(usual)
    check_headers(source.request_headers, f"{at}/request_headers")
    for number, header in enumerate(source.request_headers):
        field = f"{at}/request_headers/{number}/value"
        known = {name.lower(): name for name in headers}
        headers.pop(known.get(header.name.lower(), ""), None)
        headers[header.name] = scope.dollars.complex(header.value, field, handlers.captures(source))
    return headers


def _return(scope: Scope, place: Place) -> list[Node]:
    source, field = place.location, f"{place.pointer}/return_value"
    code = source.return_code
    if not source.return_value:
        return [directive("return", code)]
    value = scope.dollars.complex(source.return_value, field, handlers.captures(source))
    if code in handlers.REDIRECTS:
        return [directive("return", code, value)]
    # Plain text, whatever suffix the path has.
    return [
        block("types", body=[], gap=False),
        directive("default_type", "text/plain"),
        directive("return", code, value),
    ]


_PROTOCOLS = {"http": _http, "grpc": _grpc, "uwsgi": _uwsgi}
_HANDLERS = {"static": _static, "php": _php, "proxy": _proxy, "return": _return}
