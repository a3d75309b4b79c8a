"""Render one location as a context: with its prefix if prefix contexts have the same effect, else with a regular
expression.

OpenLiteSpeed tries all regular-expression contexts before any prefix, in the order of their texts. This order is
irrelevant, because each expression excludes the paths of all other locations.
"""

from __future__ import annotations

import re
from dataclasses import replace

from panel.rendering import checks, exclusive, expiry, handlers, snippets, variables
from panel.rendering.apache.rewriting import rest_of
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import Condition
from panel.rendering.headers import check as check_headers
from panel.rendering.headers import is_passed_on, merged
from panel.rendering.locations import Locations, Place
from panel.rendering.openlitespeed import answers, asides, fallbacks, refusals, ruled
from panel.rendering.openlitespeed.apps import balances
from panel.rendering.openlitespeed.formats import header_line, request_header_line
from panel.rendering.openlitespeed.hosts import upstream_app
from panel.rendering.openlitespeed.quoting import path, value
from panel.rendering.spec import Header, Location, ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, Lines, Node, Raw, block, directive


def prefixes_suffice(found: Locations) -> bool:
    """Return whether prefix contexts choose the same location as nginx for every path.

    Prefix contexts match whole path segments, and treat `/x/` as `/x`. They pass their settings to nested contexts; the
    context `/` passes them to regular-expression contexts too.
    """
    if found.exact or not all(place.pattern.endswith("/") for place in found.prefixes):
        return False
    return not any(_hands_down(place, found) for place in found.prefixes)


def _hands_down(place: Place, found: Locations) -> bool:
    below = [other for other in found.prefixes if other is not place and other.pattern.startswith(place.pattern)]
    if place.pattern == "/":
        below += found.regexes
    if place.location.handler in ("proxy", "deny") and any(map(_is_bare, below)):
        return True
    return bool(below) and _says_more(place.location)


def _is_bare(place: Place) -> bool:
    """Return whether the location serves plain files of the document root, which needs no context."""
    return place.is_prefix and place.location.handler == "static" and not (place.location.root or place.location.alias)


def _says_more(source: Location) -> bool:
    """Return whether the location has settings besides its handler and folder."""
    shown = source.index or source.headers or source.request_headers or source.expires or source.snippet
    return bool(shown) or source.autoindex is not None or handlers.asks_access(source)


def by_prefix(place: Place) -> bool:
    """Return whether a prefix context can express the location, provided that prefix contexts suffice
    (prefixes_suffice).

    If the folder of a prefix context is missing, OpenLiteSpeed drops the context until the next reload
    (HttpVHost::configContext), and serves the document root without access control. It checks no folders of
    regular-expression and proxy contexts. So a prefix context must use the document root, which always exists, be a
    proxy, or add no settings.
    """
    source = place.location
    if not place.is_prefix or source.handler == "return":
        return False
    if source.handler == "static" and handlers.asks_access(source):
        return False  # rules of its context apply after access control
    if source.handler == "proxy" or (_is_bare(place) and not _says_more(source)):
        return True
    return place.pattern == "/" and not source.root and not source.alias


def suffixes_suffice(found: Locations) -> bool:
    """Return whether PHP locations need no context, because no prefix context would change the handling of their
    scripts.
    """
    return all(
        place.location.handler == "return" or (_is_bare(place) and not _says_more(place.location))
        for place in found.prefixes
        if place.location.handler != "php"
    )


def context(
    spec: SiteSpec,
    web_server: WebServerSpec,
    place: Place,
    condition: Condition,
    everywhere: tuple[Header, ...],
    *,
    plain_prefix: bool,
    plain_scripts: bool,
) -> list[Node]:
    """Return the location's context; [] if none is needed. `plain_…`: results of prefixes_suffice, suffixes_suffice."""
    source, at = place.location, place.pointer
    handlers.check(source, at)
    inside = spec.blocks[int(at.split("/")[2])]
    _check_asked(source, inside, at)
    variables.parse(source.return_value, f"{at}/return_value", captures=handlers.captures(source))
    is_ruled = ruled.is_here(source, inside)
    falls_back = [*asides.rules_inside(place, inside), *fallbacks.rules(spec, place)]
    is_prefix = plain_prefix and by_prefix(place) and not is_ruled and not falls_back
    if source.handler == "return" and not answers.is_file(source) and not answers.is_rule(source):
        # anything not expressible is served as files
        place = replace(place, location=replace(source, handler="static"))
        source = place.location
    body = [*(ruled.body(spec, place) if is_ruled else _HANDLERS[source.handler](spec, place, is_prefix))]
    if source.handler not in ("deny", "return"):
        body += _access(source, at)
    if source.handler != "deny" and not is_ruled:
        body += _expires(source, at)
    if lines := header_lines(spec, source, at, everywhere):
        body.append(Lines("extraHeaders", lines))
    if source.snippet:
        body.append(Raw(snippets.require(source.snippet, web_server, f"{at}/snippet", "location")))
    if not body or (not is_ruled and _is_by_rule(source)):
        return []
    if source == _plain_php(source) and (plain_scripts if plain_prefix else not everywhere):
        return []  # the script handler's suffix suffices
    body += _rules(place, inside, falls_back, is_prefix=is_prefix)
    pattern = asides.lengthened(place, inside, fallbacks.lengthened(place, inside, _pattern(place, condition)))
    name = value(source.pattern, f"{at}/pattern") if is_prefix else f"exp:{pattern}"
    return [block("context", value(name, f"{at}/pattern"), body=body)]


def _rules(place: Place, inside: ServerBlock, falls_back: list[Directive], *, is_prefix: bool) -> list[Node]:
    """Return the rewrite block of a location's context, with the rules `falls_back` for errors and for the fallback of
    try_files.

    In a regular-expression context of files whose rules do not lead to separate contexts (asides.py), rules that refuse
    methods and redirect requests for folders come first.
    """
    if place.location.handler != "static" or is_prefix or asides.rules_inside(place, inside):
        return refusals.only(falls_back)
    to_folder = asides.TO_FOLDER if asides.sends_headers(place.location, inside) else ()
    return refusals.rules(inside, [*to_folder, *falls_back])


def _check_asked(source: Location, inside: ServerBlock, at: str) -> None:
    """Raise NotExpressible if a rewrite rule would lead requests to the upstream before access control."""
    breaks = any(item.flag == "break" for item in source.rewrites)
    replaced = source.proxy_uri and not ruled.proxies_here(source, inside)
    if source.handler == "proxy" and (replaced or breaks) and handlers.asks_access(source):
        field = "access_rules" if source.access_rules else "basic_auth"
        other = "a replacement of its prefix and is not the location /" if replaced else "a rewrite with the flag break"
        raise NotExpressible(
            f"{at}/{field}",
            f"OpenLiteSpeed would skip access control because the location has {other}. Remove this setting, or let "
            "the application check access",
        )


def _plain_php(source: Location) -> Location:
    """Return the location with only its PHP handler, without all other settings."""
    return Location(
        source.match, source.pattern, "php", php_pool=source.php_pool, split_path_info=source.split_path_info
    )


def _is_by_rule(source: Location) -> bool:
    """Return whether a rewrite rule of the virtual host handles the location instead of its context."""
    return bool(source.proxy_uri) if source.handler == "proxy" else answers.is_rule(source)


def _pattern(place: Place, condition: Condition) -> str:
    """Return the regular expression of the context.

    For files, the last group captures the end of the path that _folder appends to the folder: the rest after an aliased
    prefix, or else the path without its first slash.
    """
    if place.location.handler not in ("static", "php"):
        return condition.as_one()
    if place.location.alias and place.is_prefix:
        own = exclusive.Expression(f"{condition.own.text}(?s:({rest_of(place)}))$")
        return Condition(own, condition.but_not).as_one()
    return (
        f"^(?={condition.as_one().removeprefix('^')})/(?s:(.*))$"
        if _anchored(condition)
        else (f"^(?=(?s:.*?){condition.as_one()})/(?s:(.*))$")
    )


def _anchored(condition: Condition) -> bool:
    return bool(condition.but_not) or (condition.own.is_anchored and not condition.own.nocase)


def _static(spec: SiteSpec, place: Place, is_prefix: bool) -> list[Node]:
    source, at = place.location, place.pointer
    lines: list[Node] = []
    if where := _folder(place, is_prefix):
        lines += [directive("location", where), directive("allowBrowse", 1)]
    names = [path(checks.file_name(name, f"{at}/index/{n}"), f"{at}/index/{n}") for n, name in enumerate(source.index)]
    if names:
        lines.append(directive("indexFiles", ", ".join(names)))
    if source.autoindex is not None:
        lines.append(directive("autoIndex", int(source.autoindex)))
    return lines


def _folder(place: Place, is_prefix: bool) -> str:
    """Return the value of the context's `location`: a folder and the number of a group, for example `/srv/www/$1`.

    For an alias of a regular expression or of a single path, the value is the path of the file. For a prefix context
    that uses the document root, it is "".
    """
    source, at = place.location, place.pointer
    groups = len(exclusive.groups(place.pattern)) if place.is_regex else 0
    if source.alias:
        field = f"{at}/alias"
        alias = checks.path(source.alias, field)
        if place.is_regex:
            return path(_captured(place, alias, field), field)
        return path(alias if place.location.match == "=" else f"{alias}$1", field)
    if is_prefix:
        return ""
    root = path(checks.path(source.root, f"{at}/root"), f"{at}/root").rstrip("/") if source.root else "$DOC_ROOT"
    return f"{root}/${groups + 1}"


def _captured(place: Place, alias: str, field: str) -> str:
    """Return the alias with its captures replaced by the numbers of their groups in the location's regular
    expression.
    """
    parts = variables.parse(alias, field, captures=handlers.captures(place.location))
    found = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
            continue
        number = exclusive.number_of(place.pattern, part.name)
        if number is None:
            raise NotExpressible(field, f"OpenLiteSpeed supports only captures in this value, not ${part.name}")
        found.append(f"${number}")
    return "".join(found)


def _proxy(spec: SiteSpec, place: Place, is_prefix: bool) -> list[Node]:
    source, at = place.location, place.pointer
    _, upstream = handlers.upstream_of(spec, source, at)
    return [
        directive("type", "loadbalancer" if balances(upstream) else "proxy"),
        directive("handler", upstream_app(spec, source, at)),
        directive("addDefaultCharset", "off"),
    ]


def _deny(spec: SiteSpec, place: Place, is_prefix: bool) -> list[Node]:
    return [directive("allowBrowse", 0)]


def _fixed(spec: SiteSpec, place: Place, is_prefix: bool) -> list[Node]:
    """Return the body of a context that sends a fixed response from a file; [] if a rewrite rule sends the response."""
    # otherwise handled by a rule of the virtual host
    return answers.body(place) if answers.is_file(place.location) else []


_HANDLERS = {"static": _static, "php": _static, "proxy": _proxy, "return": _fixed, "deny": _deny}


def _access(source: Location, at: str) -> list[Node]:
    lines: list[Node] = []
    if source.basic_auth is not None:
        field = f"{at}/basic_auth/realm"
        # Sent in quotes without escaping (RFC 9110 section 5.6.4).
        realm = value(re.sub(r'["\\]', r"\\\g<0>", handlers.realm(source.basic_auth.realm, field)), field)
        lines += [directive("realm", realm_name(at)), directive("authName", realm), directive("required", "valid-user")]
    if source.access_rules:
        fields = [(rule, f"{at}/access_rules/{n}/source") for n, rule in enumerate(source.access_rules)]
        sources = {"allow": ["ALL"] if source.access_rules[-1].source != "all" else [], "deny": []}
        for rule, field in fields:
            found = checks.source(rule.source, field)
            sources[rule.action].append("ALL" if found == "all" else found)
        body = [directive(action, ", ".join(dict.fromkeys(items))) for action, items in sources.items() if items]
        lines.append(block("accessControl", body=body, gap=False))
    return lines


def realm_name(at: str) -> str:
    return "realm_" + "_".join(part for part in at.split("/") if part.isdigit())


def _expires(source: Location, at: str) -> list[Node]:
    if not source.expires:
        return []
    found = expiry.parse(source.expires, f"{at}/expires")
    if found.kind == "off" or found.no_cache:
        return [directive("enableExpires", 0)]
    seconds = 315360000 if found.kind == "max" else found.seconds
    return [directive("enableExpires", 1), directive("expiresDefault", f"{'M' if found.modified else 'A'}{seconds}")]


def header_lines(
    spec: SiteSpec, source: Location, at: str, everywhere: tuple[Header, ...], *, times: bool = True
) -> tuple[str, ...]:
    """Return the lines of a context's `extraHeaders`: headers of the server block and of the location, and request
    headers.

    A context with such lines inherits no headers. `times`: also the headers of a past expiry time.
    """
    check_headers(source.headers, f"{at}/headers")
    check_headers(source.request_headers, f"{at}/request_headers")
    lines: list[str] = []
    is_fixed = source.handler == "return" and not answers.is_file(source)
    is_error = is_fixed and source.return_code not in ruled.PLAIN
    for header, number in merged(everywhere, source.headers):
        if is_error and not header.always:
            continue
        field = f"{at}/headers" if number is None else f"{at}/headers/{number}/value"
        lines.append(header_line(header, field, spec, int(at.split("/")[2])))
    if is_fixed:
        lines += ["Header set Content-Type text/plain"] if ruled.error_text(source) else []
        lines += ruled.times(source, at)
    elif times and source.expires and expiry.parse(source.expires, f"{at}/expires").no_cache:
        lines += ruled.dated(expiry.NEVER)
    for number, header in enumerate(source.request_headers):
        field = f"{at}/request_headers/{number}/value"
        if not is_passed_on(header):
            lines.append(request_header_line(header, field))
    return tuple(lines)
