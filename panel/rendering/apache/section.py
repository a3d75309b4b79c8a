"""Render one location as a `<LocationMatch>` that excludes the paths of all other locations, so sections
never merge.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from panel.rendering import checks, exclusive, expiry, handlers, snippets
from panel.rendering.apache import cache
from panel.rendering.apache.access import require
from panel.rendering.apache.modules import NO_GRPC, mpm
from panel.rendering.apache.quoting import Interpolator, expression, plain, regex
from panel.rendering.apache.rewriting import rest_of
from panel.rendering.apache.upstream import host_of, target_of
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import Condition, Expression
from panel.rendering.headers import check as check_headers
from panel.rendering.headers import is_passed_on, merged
from panel.rendering.locations import Place
from panel.rendering.spec import Header, Location, SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, Node, Raw, block, directive

REST = "PADDOCK_REST"  # the rest of the path after an aliased prefix


@dataclass(frozen=True)
class Scope:
    """Data that all sections of a virtual host share; `name` is its ServerName."""

    spec: SiteSpec
    web_server: WebServerSpec
    headers: tuple[Header, ...]
    name: str


@dataclass(frozen=True)
class Inside:
    """Rewrite rules for a location's section.

    `is_target`: another location's try_files can lead to this location after the rules of the virtual host.
    `fallbacks`: rules for the try_files of this location. `folders`: rules for the index files of its folders.
    """

    is_target: bool
    fallbacks: Sequence[Directive] = ()
    folders: Sequence[Directive] = ()


def section(scope: Scope, place: Place, condition: Condition, inside: Inside) -> list[Node]:
    """Return the section of the location; an empty list if it adds nothing to the virtual host."""
    if inside.folders:  # disable mod_dir, the rules do its work
        place = replace(place, location=replace(place.location, index=()))
    source, at = place.location, place.pointer
    words = _interpolator(place, scope.name)
    is_grpc = source.handler == "proxy" and source.upstream_protocol == "grpc"
    if is_grpc and mpm(scope.web_server) == "mpm_prefork":
        raise NotExpressible(f"{at}/upstream_protocol", NO_GRPC)
    body = [*_HANDLERS[source.handler](scope.spec, place, words), *cache.of_place(scope.spec, place)]
    body += [*_fallbacks(source, inside.fallbacks), *inside.folders]
    if inside.is_target and source.handler == "return":
        body += _return_inside(source)
    if source.handler != "deny":
        body += _settings(source, at, scope.headers, words)
    if source.snippet:
        body.append(Raw(snippets.require(source.snippet, scope.web_server, f"{at}/snippet", "location")))
    if not body:
        return []
    pattern = regex(_pattern(place, condition, words), f"{at}/pattern")
    return [block("LocationMatch", checks.text(pattern, f"{at}/pattern"), body=body)]


def _fallbacks(source: Location, rules: Sequence[Directive]) -> list[Node]:
    if not rules or source.try_files[-1] == "=404":
        return list(rules)  # without a fallback methods stay restricted
    # Otherwise the rules for files would apply to a missing path before the fallback is looked up.
    there = f"{'-e' if '$uri/' in source.try_files else '-f'} '%{{REQUEST_FILENAME}}%{{PATH_INFO}}'"
    return [block("If", f"! {there}", body=[directive("AllowMethods", "reset")], gap=False), *rules]


def _settings(source: Location, at: str, everywhere: tuple[Header, ...], words: Interpolator) -> list[Node]:
    """Return the directives for access control, limits, compression, expiry and headers."""
    times = _expires_of_answer if source.handler == "return" else _expires
    lines = [*require(source, at), *_limits(source), *_compressed(source), *times(source, at)]
    return [*lines, *_headers(source, at, everywhere, words)]


def _interpolator(place: Place, server_name: str) -> Interpolator:
    """Return an Interpolator that refers to captures by group name; unnamed groups get a name."""
    names = handlers.captures(place.location)
    found = exclusive.groups(place.pattern) if place.is_regex else []
    captures = {str(n): (name or f"PADDOCK_{n}").upper() for n, (_, _, name) in enumerate(found, 1)}
    captures |= {name: name.upper() for _, _, name in found if name}
    return Interpolator(server_name, captures, names)


def _pattern(place: Place, condition: Condition, words: Interpolator) -> str:
    if place.location.handler == "proxy" and place.location.proxy_uri:
        text = condition.own.text
        own = Expression(f"{text[:-1]}()$" if place.location.match == "=" else f"{text}(.*)$")
        return Condition(own, condition.but_not).as_one()
    if place.location.alias and place.is_prefix:
        own = Expression(f"{condition.own.text}(?<{REST}>{rest_of(place)})$")
        return Condition(own, condition.but_not).as_one()
    if place.is_regex and words.captures:
        numbers = {int(key): name for key, name in words.captures.items() if key.isdigit()}
        own = Expression(exclusive.named(condition.own.text, numbers), condition.own.nocase)
        condition = Condition(own, condition.but_not)
    return condition.below_root() if place.location.handler == "proxy" else condition.as_one()


def _static(spec: SiteSpec, place: Place, words: Interpolator) -> list[Node]:
    source, at = place.location, place.pointer
    lines: list[Node] = []
    if source.root:
        root = plain(checks.path(source.root, f"{at}/root"), f"{at}/root")
        lines.append(directive("Alias", expression(root.rstrip("/")) + "%{REQUEST_URI}"))
    if source.alias:
        lines.append(directive("Alias", _alias(place, words)))
    if source.index:
        lines.append(directive("DirectoryIndex", *index_files(source.index, f"{at}/index")))
    if source.autoindex is not None:
        lines.append(directive("Options", "+Indexes" if source.autoindex else "-Indexes"))
    return lines


def _alias(place: Place, words: Interpolator) -> str:
    field = f"{place.pointer}/alias"
    path = plain(checks.path(place.location.alias, field), field)
    if place.is_regex:
        return words.in_expression(path, field)
    if place.is_prefix:
        return f"{expression(path)}%{{env:MATCH_{REST}}}"
    return expression(path)


def index_files(names: tuple[str, ...], at: str) -> list[str]:
    return [plain(checks.file_name(name, f"{at}/{n}"), f"{at}/{n}") for n, name in enumerate(names)]


def _php(spec: SiteSpec, place: Place, words: Interpolator) -> list[Node]:
    source, at = place.location, place.pointer
    number, pool = handlers.pool_of(spec, source, at)
    address = checks.address(pool.address, f"/php_pools/{number}/address")
    handler = f"proxy:{address}|fcgi://localhost" if address.startswith("unix:") else f"proxy:fcgi://{address}"
    lines = _static(spec, place, words)
    # Pass only existing scripts to PHP, so PHP never has to guess the script from the path.
    split = r"%{REQUEST_FILENAME} =~ /\.php$/" if source.split_path_info else "-z %{PATH_INFO}"
    is_script = f"-f %{{REQUEST_FILENAME}} && {split}"
    runs = [directive("AllowMethods", "reset"), directive("SetHandler", handler)]
    lines.append(block("If", is_script, body=runs, gap=False))
    if values := handlers.php_values(pool, f"/php_pools/{number}"):
        lines.append(directive("ProxyFCGISetEnvIf", "true", "PHP_VALUE", expression(values)))
    return [*lines, *_request_headers(source, at, words)]


def _proxy(spec: SiteSpec, place: Place, words: Interpolator) -> list[Node]:
    source, at = place.location, place.pointer
    url, parameters = target_of(spec, source, at)
    if source.proxy_uri:
        url += source.proxy_uri + "$1"  # without $1, httpd appends the whole path
    if source.upstream_protocol == "uwsgi":  # the parameters tell the application about the client
        return [directive("ProxyPassMatch", url, *parameters), *_request_headers(source, at, words)]
    own = {header.name.lower(): header.value for header in source.request_headers}
    is_upstreams = own.get("host", "") == host_of(spec, source, at) != ""
    lines: list[Node] = [directive("ProxyPassMatch", url, *parameters)]
    lines.append(directive("ProxyPreserveHost", "Off" if is_upstreams else "On"))
    if "x-forwarded-for" in own:  # httpd would append the client's address to it
        lines.append(directive("ProxyAddHeaders", "Off"))
    forwarded = (("X-Real-IP", "expr=%{REMOTE_ADDR}"), ("X-Forwarded-Proto", "expr=%{REQUEST_SCHEME}"))
    lines += [directive("RequestHeader", "set", name, value) for name, value in forwarded if name.lower() not in own]
    return [*lines, *_request_headers(source, at, words, {"host"} if is_upstreams else set())]


def _request_headers(source: Location, at: str, words: Interpolator, done: Collection[str] = frozenset()) -> list[Node]:
    """Return directives for the location's request headers, except headers whose lower-case name is in `done`."""
    check_headers(source.request_headers, f"{at}/request_headers")
    lines: list[Node] = []
    for number, header in enumerate(source.request_headers):
        if header.name.lower() in done or is_passed_on(header):
            continue
        if not header.value:
            lines.append(directive("RequestHeader", "unset", header.name))
            continue
        value = words.header(header.value, f"{at}/request_headers/{number}/value")
        lines.append(directive("RequestHeader", "set", header.name, value))
    return lines


def _return(spec: SiteSpec, place: Place, words: Interpolator) -> list[Node]:
    """Return the directives that send the text of a fixed response; [] for a redirect, or for a status of 300 or more
    without text.

    A rewrite rule sets the status, so Apache sends the text as an error document.
    """
    source, field = place.location, f"{place.pointer}/return_value"
    code = source.return_code or 0
    if code in handlers.REDIRECTS or (not source.return_value and code >= 300):
        return []
    text = words.in_expression(source.return_value, field)
    if text[:1] in ("/", "h", "d"):  # httpd would read a path, a URL or the word “default”
        text = "\\" + text
    whole = [directive("MaxRanges", "none")] if code == 200 else []  # a fixed response supports no ranges
    return [
        directive("ErrorDocument", code, text or " "),
        directive("Header", "always", "set", "Content-Type", "text/plain"),
        *whole,
    ]


def _return_inside(source: Location) -> list[Node]:
    """Return the directives in the section of a location with a fixed response, if another location's try_files leads
    to it.

    A redirect needs no directives, because the other location's rewrite rule sends the redirect.
    """
    if source.return_code in handlers.REDIRECTS:
        return []
    return [directive("AllowMethods", "reset"), directive("Redirect", source.return_code)]


def _deny(spec: SiteSpec, place: Place, words: Interpolator) -> list[Node]:
    return [directive("Require", "all", "denied")]


_HANDLERS = {"static": _static, "php": _php, "proxy": _proxy, "return": _return, "deny": _deny}


def _compressed(source: Location) -> list[Node]:
    """Return the compression directives of a location. Its only setting for compression is `gzip`; the value "off"
    turns Brotli off too.
    """
    return [*gzip(source.gzip), *(brotli("off", ()) if source.gzip == "off" else [])]


def _limits(source: Location) -> list[Node]:
    return body_limit(source.client_max_body_mb)


def body_limit(megabytes: int | None) -> list[Node]:
    return [] if megabytes is None else [directive("LimitRequestBody", megabytes * 1024 * 1024)]


def gzip(setting: str, types: tuple[str, ...] = ()) -> list[Node]:
    kinds = dict.fromkeys(("text/html", *types))
    if setting == "on":
        return [directive("UnsetEnv", "no-gzip"), directive("AddOutputFilterByType", "DEFLATE", *kinds)]
    return [directive("SetEnv", "no-gzip", "1")] if setting == "off" else []


def brotli(setting: str, types: tuple[str, ...]) -> list[Node]:
    """Return the directives for Brotli; [] if `setting` is "". They must come before those for gzip, so that no
    response is compressed twice.
    """
    kinds = dict.fromkeys(("text/html", *types))
    if setting == "on":
        return [directive("UnsetEnv", "no-brotli"), directive("AddOutputFilterByType", "BROTLI_COMPRESS", *kinds)]
    return [directive("SetEnv", "no-brotli", "1")] if setting == "off" else []


def _expires(source: Location, at: str) -> list[Node]:
    if not source.expires:
        return []
    expiry_ = expiry.parse(source.expires, f"{at}/expires")
    if expiry_.kind == "off":
        return [directive("ExpiresActive", "Off")]
    if expiry_.kind == "time" and not expiry_.no_cache:
        base = "modification" if expiry_.modified else "access"
        when = f"{base} plus {expiry_.seconds} seconds"
        return [directive("ExpiresActive", "On"), directive("ExpiresDefault", when)]
    date, control = expiry.FOREVER if expiry_.kind == "max" else expiry.NEVER
    return [
        directive("ExpiresActive", "Off"),
        directive("Header", "set", "Expires", date),
        directive("Header", "set", "Cache-Control", control),
    ]


def _expires_of_answer(source: Location, at: str) -> list[Node]:
    """Return the expiry headers of a fixed response.

    Apache sends a fixed response as an error page, in which headers need “always”. nginx sends Expires and
    Cache-Control only with the statuses that this function tests (ngx_http_headers_module.c).
    """
    if not source.expires or source.return_code not in (200, 201, 204, 206, 301, 302, 303, 304, 307, 308):
        return []
    found = expiry.parse(source.expires, f"{at}/expires")
    if found.kind == "off":
        return []
    if found.kind == "time" and not found.no_cache:
        when = "now" if found.modified else f"access plus {found.seconds} seconds"
        return [directive("ExpiresActive", "On"), directive("ExpiresDefault", when)]
    date, control = expiry.FOREVER if found.kind == "max" else expiry.NEVER
    return [
        directive("Header", "always", "set", "Expires", date),
        directive("Header", "always", "set", "Cache-Control", control),
    ]


def _headers(source: Location, at: str, everywhere: tuple[Header, ...], words: Interpolator) -> list[Node]:
    """Return directives for the location's own response headers. A header of the virtual host with the same name is
    removed first if only one of both has `always`.
    """
    check_headers(source.headers, f"{at}/headers")
    inherited = {header.name.lower(): header for header in everywhere}
    lines: list[Node] = []
    for header, number in merged((), source.headers):
        other = inherited.get(header.name.lower())
        if other is not None and other.always != header.always:
            lines.append(directive("Header", *(["always"] if other.always else []), "unset", header.name))
        lines.append(header_line(header, words.header(header.value, f"{at}/headers/{number}/value")))
    return lines


def header_line(header: Header, value: str) -> Directive:
    return directive("Header", *(["always"] if header.always else []), "set", header.name, value)
