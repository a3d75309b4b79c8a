"""Render the locations of one server block: rewrite rules of the virtual host, and a section for each location."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from panel.rendering import checks, handlers, maintenance, names, reach
from panel.rendering.apache import cache, indexes, plain_rewrites, rewrites, rewriting
from panel.rendering.apache.rewriting import Rewritten
from panel.rendering.apache.section import Inside, Scope, section
from panel.rendering.apache.upstream import target_of
from panel.rendering.exclusive import Condition, conditions
from panel.rendering.locations import Locations, Place, locations_of
from panel.rendering.spec import Header, ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, Node, directive


@dataclass(frozen=True)
class _Block:
    """Server block with its locations, while they are rendered.

    `folders`: locations whose index files need rewrite rules. `encodes`: the server supports the rewrite flag BCTLS.
    """

    source: ServerBlock
    at: str
    scope: Scope
    found: Locations
    folders: Mapping[Place, tuple[str, ...]]
    chosen: dict[Place, Condition]
    fallbacks: Mapping[Place, Place | None]
    encodes: bool


@dataclass(frozen=True)
class _Lines:
    """Lines that one location adds to the virtual host."""

    rules: list[Directive]
    sections: list[Node]


def locations_lines(
    spec: SiteSpec, web_server: WebServerSpec, source: ServerBlock, everywhere: tuple[Header, ...], at: str
) -> list[Node]:
    """Return the configuration lines of all locations of a server block. `everywhere`: headers of the virtual host."""
    one = _block(Scope(spec, web_server, everywhere, server_name(spec, source)), source, at)
    lines = [_of_place(one, place) for place in one.chosen]
    sections = [node for item in lines for node in item.sections]
    rules = _with_rules_of_block(one, [rule for item in lines for rule in item.rules])
    if any(rewrites.TO in word for line in rules for word in line.args):
        sections.append(rewrites.asked_anew(encodes=one.encodes))
    rules = _with_first_rules(one, rules)
    if any(location.upstream_tls for location in source.locations):
        sections.insert(0, directive("SSLProxyEngine", "on"))
    return [directive("RewriteEngine", "On", gap=True), *rules, *sections] if rules else sections


def _block(scope: Scope, source: ServerBlock, at: str) -> _Block:
    found, folders = indexes.asking(source, locations_of(source, at), at)
    for place in found.places:
        handlers.check(place.location, place.pointer)
    fallbacks = {place: reach.by_fallback(place, found) for place in found.places}
    encodes = rewriting.encodes_queries(scope.web_server)
    return _Block(source, at, scope, found, folders, conditions(found), fallbacks, encodes)


def _of_place(one: _Block, place: Place) -> _Lines:
    """Return the rewrite rules and the section of one location."""
    condition, root = one.chosen[place], one.source.root
    words, flag = rewriting.interpolator(place, one.scope.name), rewriting.raw_uri_flag(one.scope.web_server)
    rewritten = Rewritten(place, condition, root, words, flag, one.fallbacks[place], encodes=one.encodes, anew=True)
    rules = rewriting.of_requests_only(rewriting.rules(rewritten, falls_back_later=True))
    later: list[Directive] = []
    if rewriting.is_checked_first(place.location):
        later = rewriting.of_requests_only(rewriting.rules_inside(rewritten))
    own: list[Directive] = []
    if index := one.folders.get(place, ()):
        rules += indexes.rules(place, index, condition, root, words)
        own = indexes.of_section(place, index, encodes=one.encodes)
    inside = Inside(is_target=place in one.fallbacks.values(), fallbacks=later, folders=own)
    return _Lines(rules, section(one.scope, place, condition, inside))


def _with_rules_of_block(one: _Block, rules: list[Directive]) -> list[Directive]:
    """Return the server block's own rewrite rules (rewrites, redirects and limits), followed by `rules`, those of its
    locations.
    """
    aside = [*rewriting.beside_alias(one.chosen), *cache.path_rules(one.source)]
    if rewrites.are_used(one.source):
        return [*_moved(one), *aside, *rules]
    slashes, limits = rewriting.missing_slashes(one.found), rewriting.body_limits(one.source, one.chosen)
    return [*aside, *slashes, *limits, *rules]


def _with_first_rules(one: _Block, rules: list[Directive]) -> list[Directive]:
    """Return `rules`, preceded by the rewrite rules that record the original path (if the server block uses it), leave
    ACME challenges unchanged, reject line breaks in paths, and send the maintenance page.
    """
    spec, source = one.scope.spec, one.source
    rules = [*_maintenance_rules(spec), *rules]
    first = rewriting.challenges_first(spec) if rules else []
    rules = [*first, *rewriting.line_breaks(source), *rules]
    return [*rewriting.RAW_URI_RULES, *rules] if _mentions_raw_uri(source) else rules


def server_name(spec: SiteSpec, source: ServerBlock) -> str:
    """Return the ServerName of a server block: its first exact name; without one, a reserved name that no client can
    request (RFC 2606).
    """
    # A ServerName with brackets is a syntax error.
    exact = [name for name in source.names if names.kind(name) == "exact" and not names.is_ipv6(name)]
    return exact[0] if exact else f"{spec.name}.invalid"


def _maintenance_rules(spec: SiteSpec) -> list[Directive]:
    """Return rewrite rules that send every request to the maintenance page, unless it comes from an allowed address."""
    if spec.maintenance is None:
        return []
    allowed = [checks.source(item, "/maintenance/allowed") for item in spec.maintenance.allowed]
    others = [directive("RewriteCond", "expr", f"! %{{REMOTE_ADDR}} -ipmatch '{item}'") for item in allowed]
    return [*others, directive("RewriteRule", "^", "-", f"[R={maintenance.STATUS},L]")]


def _moved(one: _Block) -> list[Directive]:
    """Return rewrite rules for the site's rewrites, and redirects and limits that must precede the rules of locations.

    The redirects add a final /, and the limits apply to request bodies. Internal requests keep their path: those for an
    error page, and those that a rule makes for a rewritten path.
    """
    spec, source, chosen, at = one.scope.spec, one.source, one.chosen, one.at

    def proxied(place: Place) -> str | None:
        proxies = place.location.handler == "proxy"
        return target_of(spec, place.location, place.pointer)[0] if proxies else None

    dialect = rewrites.Dialect(one.scope.name, proxied, encoding=rewrites.QUERY_ENCODING if one.encodes else ())
    slashes, limits = rewriting.missing_slashes(one.found), rewriting.body_limits(source, chosen)
    parts = plain_rewrites.split(source, one.found, one.folders, limits=bool(limits))
    if parts.of_block:
        who = f"the server block, because {parts.of_block}"
        return [*_general(source, chosen, slashes, at, dialect, who), *slashes, *limits]
    if not (parts.general or source.error_pages or source.snippet or spec.maintenance):
        dialect = replace(dialect, foreign=())
    found_rules = plain_rewrites.of_server(source, at, limits, dialect)
    found_rules += [*slashes, *plain_rewrites.of_places(parts.places, chosen, dialect)]
    if parts.general:
        who = "; ".join(f"location {place.label}, because {why}" for place, why in parts.general.items())
        rest = {place: chosen[place] for place in parts.general}
        found_rules += _general(replace(source, rewrites=()), rest, [], at, dialect, who)
    return found_rules


def _general(
    source: ServerBlock,
    chosen: dict[Place, Condition],
    slashes: list[Directive],
    at: str,
    dialect: rewrites.Dialect,
    who: str,
) -> list[Directive]:
    """Return several rewrite rules for each rewrite. The last rules record the new path, which a section then requests
    internally, so that its location is chosen as in nginx.

    `who` is part of a comment: the server block or locations with these rewrites, and why one rule for each rewrite is
    not enough.
    """
    lines = rewrites.rules(source, chosen, slashes, at, dialect)
    comment = f"Paddock writes several rules for each rewrite of {who}".replace("\n", " ")
    return [replace(lines[0], comment=comment), *lines[1:], *rewrites.ends()]


def _mentions_raw_uri(source: ServerBlock) -> bool:
    headers = [
        *source.headers,
        *(header for item in source.locations for header in item.headers + item.request_headers),
    ]
    texts = [header.value for header in headers] + [item.return_value for item in source.locations]
    texts += [part for item in source.locations for part in item.try_files]
    texts += [item.replacement for item in source.rewrites]
    texts += [item.replacement for location in source.locations for item in location.rewrites]
    return any("request_uri" in text for text in texts)
