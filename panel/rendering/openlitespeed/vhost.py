"""Render one server block as a virtual host's vhconf.conf."""

from __future__ import annotations

from dataclasses import replace

from panel.rendering import checks, handlers, logformats, reach, snippets
from panel.rendering.apache import rewrites, rewriting
from panel.rendering.apache.quoting import RAW_URI, rewrite_regex
from panel.rendering.apache.quoting import line as rewrite_line
from panel.rendering.apache.rewriting import Rewritten
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import Condition, Expression, conditions
from panel.rendering.headers import check as check_headers
from panel.rendering.locations import Locations, Place, locations_of
from panel.rendering.openlitespeed import (
    answers,
    fallbacks,
    folders,
    indexes,
    methods,
    paths,
    plain_scripts,
    refusals,
    ruled,
    scripts,
    www,
)
from panel.rendering.openlitespeed.apps import applications
from panel.rendering.openlitespeed.cache import cached, module
from panel.rendering.openlitespeed.context import context, header_lines, prefixes_suffice, realm_name, suffixes_suffice
from panel.rendering.openlitespeed.formats import header_line, in_own_words, rules_for, says_raw_uri, server_name
from panel.rendering.openlitespeed.hosts import folder, host_name, pool_app, upstream_app
from panel.rendering.openlitespeed.quoting import path, value
from panel.rendering.readers.openlitespeed import read
from panel.rendering.spec import Header, Location, ServerBlock, SiteSpec, WebServerSpec
from panel.rendering.tree import Directive, Lines, Node, Raw, block, directive

ONCE = {"rewrite"}  # only the first is used (XmlNode::getChild in src/util/xmlnode.cpp)
LEVELS = {"debug": "DEBUG", "info": "INFO", "notice": "NOTICE", "warn": "WARN", "error": "ERROR", "crit": "ERROR"}

REFUSALS = (401, 403)
# Captures in a query are encoded but for these seven characters, of which nginx encodes none.
_QUERY_ENCODING = ("B", "BNP", "BNE=/.-:=@~")
# (HTTP/2, HTTP/3) -> enableSpdy. The bits are 4 and 8, but 4 alone is read as a version number from before SPDY was
# dropped and enables nothing (SslContext::enableAlpn); with an old bit added it works.
_PROTOCOLS = {(False, False): 0, (True, False): 5, (False, True): 8, (True, True): 12}
_SPOKEN = {(False, False): "HTTP/1.1", (True, False): "HTTP/2", (False, True): "HTTP/3", (True, True): "HTTP/2 and 3"}


def host(spec: SiteSpec, web_server: WebServerSpec, number: int) -> tuple[Node, ...]:
    source, at = spec.blocks[number], f"/blocks/{number}"
    found = locations_of(source, at)
    everywhere = _headers(spec, number)
    nodes = [*_files(spec, web_server, source, number), *_logs(source, web_server, at), *_error_pages(source, at)]
    nodes += [*_tls(source, at), *_realms(found), *applications(spec, source), *_scripts(spec, found)]
    nodes += [*module(spec, found), *_rewrite(spec, web_server, number, found)]
    nodes += _contexts(spec, web_server, number, found, everywhere)
    nodes += _websockets(spec, found)
    if source.snippet:
        text = snippets.require(source.snippet, web_server, f"{at}/snippet", "server")
        written = {node.name for node in nodes if isinstance(node, Directive)}
        if twice := next((item.name for item in read(text) if item.name in ONCE & written), ""):
            raise NotExpressible(
                f"{at}/snippet",
                f"the raw directives contain a block {twice}, which Paddock already writes for the site's settings, "
                "so OpenLiteSpeed would ignore the second block. Use the site's settings instead",
            )
        nodes.append(Raw(text))
    return tuple(nodes)


def answers_twice(source: Location) -> bool:
    """Return whether OpenLiteSpeed can respond twice to a request that access control refuses: with the error page of
    the refusal, and with 404 if the file is missing.

    For an upstream, OpenLiteSpeed does not look for a file (HttpSession::processFileMap in src/http).
    """
    return handlers.asks_access(source) and source.handler != "proxy"


def document_root(spec: SiteSpec, web_server: WebServerSpec, number: int) -> str:
    """Return the server block's document root; for a block without one, an empty folder next to the configuration."""
    root = spec.blocks[number].root
    if not root:
        return f"{folder(web_server, host_name(spec, number))}/html"
    return path(checks.path(root, f"/blocks/{number}/root"), f"/blocks/{number}/root")


def _files(spec: SiteSpec, web_server: WebServerSpec, source: ServerBlock, number: int) -> list[Node]:
    at = f"/blocks/{number}/index"
    names = [path(checks.file_name(name, f"{at}/{n}"), f"{at}/{n}") for n, name in enumerate(source.index)]
    index = [
        directive("useServer", 0),
        directive("indexFiles", ", ".join(names or ["index.html"])),
        directive("autoIndex", int(source.autoindex)),
    ]
    lines: list[Node] = [directive("docRoot", document_root(spec, web_server, number))]
    if source.gzip:
        lines.append(directive("enableGzip", int(source.gzip == "on")))
    if source.brotli:
        lines.append(directive("enableBr", int(source.brotli == "on")))
    return [*lines, block("index", body=index)]


def _logs(source: ServerBlock, web_server: WebServerSpec, at: str) -> list[Node]:
    roots = (web_server.log_dir, *web_server.site_roots)
    lines: list[Node] = []
    if source.access_log == "off":
        lines.append(block("accesslog", f"{web_server.log_dir}/access.log", body=[directive("useServer", 2)]))
    elif source.access_log:
        log = path(checks.log_path(source.access_log, roots, f"{at}/access_log"), f"{at}/access_log")
        form = logformats.OPENLITESPEED.get(logformats.check(source.access_log_format, f"{at}/access_log_format"))
        body = [directive("useServer", 0), directive("rollingSize", 0)]
        lines.append(block("accesslog", log, body=body + ([directive("logFormat", form)] if form else [])))
    if source.error_log:
        log = path(checks.log_path(source.error_log, roots, f"{at}/error_log"), f"{at}/error_log")
        level = LEVELS[checks.log_level(source.error_log_level, f"{at}/error_log_level")]
        lines.append(block("errorlog", log, body=[directive("useServer", 0), directive("logLevel", level)]))
    return lines


def _error_pages(source: ServerBlock, at: str) -> list[Node]:
    """Return the error pages, but not for 401 and 403 if access control protects files: OpenLiteSpeed 1.9 would respond
    twice to a refused request for a missing file, and the next request would get the second response.
    """
    lines: list[Node] = []
    left_out = REFUSALS if any(map(answers_twice, source.locations)) else ()
    for number, page in enumerate(source.error_pages):
        field = f"{at}/error_pages/{number}"
        url = value(checks.target(page.uri, f"{field}/uri"), f"{field}/uri")
        for code in checks.error_codes(page.codes, f"{field}/codes"):
            if code not in left_out:
                lines.append(block("errorpage", code, body=[directive("url", url)]))
    return lines


def _tls(source: ServerBlock, at: str) -> list[Node]:
    secure = [listen for listen in source.listens if listen.tls]
    if secure and source.tls is None:
        raise NotExpressible(f"{at}/tls", "the server block uses TLS but has no certificate; choose a certificate")
    if not secure or source.tls is None:
        return []
    if source.client_certificates is not None:
        message = (
            "On OpenLiteSpeed, a TLS session of another site bypasses the check of client certificates; turn "
            "client certificates off, or choose another web server"
        )
        raise NotExpressible(f"{at}/client_certificates", message)
    return [block("vhssl", body=tls_keys(source, at))]


def tls_keys(source: ServerBlock, at: str) -> list[Node]:
    """Return the TLS settings of a server block, for its virtual host, and for listeners that use it as default."""
    assert source.tls is not None
    http2 = any(listen.http2 for listen in source.listens if listen.tls)
    http3 = any(listen.http3 for listen in source.listens if listen.tls)
    key, certificate = f"{at}/tls/key_path", f"{at}/tls/certificate_path"
    return [
        directive("keyFile", path(checks.path(source.tls.key_path, key), key)),
        directive("certFile", path(checks.path(source.tls.certificate_path, certificate), certificate)),
        directive("certChain", 1),
        directive("sslProtocol", 24, comment="TLS 1.2 and 1.3"),
        directive("enableSpdy", _PROTOCOLS[http2, http3], comment=_SPOKEN[http2, http3]),
        directive("enableQuic", int(http3)),
    ]


def _realms(found: Locations) -> list[Node]:
    lines: list[Node] = []
    for place in found.places:
        if (auth := place.location.basic_auth) is not None:
            field = f"{place.pointer}/basic_auth/path"
            users = block("userDB", body=[directive("location", path(checks.path(auth.path, field), field))], gap=False)
            lines.append(block("realm", realm_name(place.pointer), body=[users]))
    return lines


def _scripts(spec: SiteSpec, found: Locations) -> list[Node]:
    """Return the script handler, which runs files with PHP suffixes in the whole virtual host."""
    pools = [handlers.pool_of(spec, place.location, place.pointer)[1] for place in _php(found)]
    if not pools:
        return []
    suffixes = ", ".join(dict.fromkeys(suffix for place in _php(found) for suffix in scripts.suffixes(place.location)))
    return [block("scripthandler", body=[directive("add", f"fcgi:{pool_app(spec, pools[0].name)} {suffixes}")])]


def _php(found: Locations) -> list[Place]:
    return [place for place in found.places if place.location.handler == "php"]


def _rewrite(spec: SiteSpec, web_server: WebServerSpec, number: int, found: Locations) -> list[Node]:
    source, rules = spec.blocks[number], list[Directive]()
    root, refuses = document_root(spec, web_server, number), not refusals.says_itself(source.snippet, "rewrite")
    server = server_name(spec, number)
    for other, hosts in www.taken_over(spec.blocks, number):
        rules += _redirects_of(spec, other, hosts)
    if source.redirect_to_https:
        secure = [listen for listen in source.listens if listen.tls]
        rules += _to_https(secure[0].port if secure else 443)
    if not prefixes_suffice(found):  # prefix contexts add the slash themselves
        rules += rewriting.missing_slashes(found)
    # A rule's pattern sees the path without /./, but %{REQUEST_URI} in its conditions keeps /./.
    chosen = {place: replace(condition, alone=True) for place, condition in conditions(found).items()}
    rules += [*paths.led_up(source), *rewriting.line_breaks(source), *rewriting.beside_alias(chosen)]
    if rewrites.are_used(source):
        rules += _rewritten(spec, source, found, chosen, server, number)
    rules += indexes.rules(source, found, chosen, root)
    for place, condition in chosen.items():
        rules += _of_place(spec, source, place, condition, found, root, server, refuses=refuses)
    rules += plain_scripts.rules(source, found, chosen, root)
    if refuses:
        first = [*methods.refused(source), *paths.resolved(source, chosen)]
        rules = [*first, *rules, *folders.refused(source, found, chosen, root)]
        rules += [*methods.rules(source, found, chosen, root), *folders.rules(source, found, chosen, root)]
        rules += [*folders.forbidden(source, chosen, root), *folders.missing(source, chosen, root)]
        rules += methods.marks(source, chosen, found)
        rules = [*refusals.pages_are_unmarked(source), *rules]
    if rules:
        rules = [*rewriting.challenges_first(spec), *rules]
    rules = in_own_words(rules, source)
    rules = [*rules_for(spec, number, rules), *rules]
    if any(RAW_URI in word for rule in rules for word in rule.args) or says_raw_uri(source):
        rules = [*rewriting.RAW_URI_RULES, *rules]
    if not rules:
        return []
    lines = Lines("rules", tuple(rewrite_line(rule) for rule in rules))
    return [block("rewrite", body=[directive("enable", 1), lines])]


def _of_place(
    spec: SiteSpec,
    source: ServerBlock,
    place: Place,
    condition: Condition,
    found: Locations,
    root: str,
    server: str,
    *,
    refuses: bool,
) -> list[Directive]:
    """Return the virtual host's rewrite rules for a location; with `refuses`, also rules that refuse methods."""
    handlers.check(place.location, place.pointer)
    rules = cached(place, condition)
    is_ruled = ruled.is_here(place.location, source)
    if not is_ruled and (place.location.handler != "return" or answers.is_rule(place.location)):
        words, fallback = rewriting.interpolator(place, server), reach.by_fallback(place, found)
        if refuses:
            rules += methods.before_fallback(source, place, condition, root, fallback)
        made = rewriting.rules(Rewritten(place, condition, root, words, ",QSD", _fixed(fallback, source)))
        rules += fallbacks.marked(source, place, plain_scripts.fallback(source, place, found, made))
    rules += ruled.recorded(spec, place, condition)
    if place.location.handler == "proxy" and place.location.proxy_uri and not is_ruled:
        rules += _proxied(spec, place, condition)
    wants_files = place.location.handler == "static" and place.location.match in ("=", "^~")
    if _php(found) and wants_files and not scripts.can_be_sent(source):
        rules += _no_scripts(place, condition)
    return rules


def _rewritten(
    spec: SiteSpec,
    source: ServerBlock,
    found: Locations,
    chosen: dict[Place, Condition],
    server: str,
    number: int,
) -> list[Directive]:
    """Return rules for the site's rewrites. OpenLiteSpeed itself then chooses the context by the rewritten path."""

    def proxied(place: Place) -> str | None:
        proxies = place.location.handler == "proxy"
        return f"http://{upstream_app(spec, place.location, place.pointer)}" if proxies else None

    # N stops by itself after ten rounds.
    dialect = rewrites.Dialect(server, proxied, foreign=(), anew="N", encoding=_QUERY_ENCODING)
    rules = rewrites.rules(source, chosen, rewriting.missing_slashes(found), f"/blocks/{number}", dialect)
    return [*rules, *_unsendable(chosen)]


def _unsendable(chosen: dict[Place, Condition]) -> list[Directive]:
    """Return rewrite rules that reject rewritten paths of upstreams with spaces, control characters, %, ? or #.
    OpenLiteSpeed sends them decoded (HttpReq::encodeReqLine), so a line break would start another request.
    """
    found: list[Directive] = []
    for place, condition in chosen.items():
        if place.location.handler == "proxy" and not place.location.proxy_uri:
            found.append(directive("RewriteCond", f"%{{ENV:{rewrites.MOVED}}}", "=1"))
            whole = condition.as_whole().removesuffix("(?s:.*)$")
            pattern = rewrite_regex(f"{whole}(?s:.*)[\\x00-\\x20\\x7f%?#]", f"{place.pointer}/pattern")
            found.append(directive("RewriteRule", pattern, "-", "[R=400,L]"))
    return found


def _redirects_of(spec: SiteSpec, other: int, hosts: str) -> list[Directive]:
    """Return the redirects of the server block `other`, for requests whose Host header matches `hosts`."""
    source = spec.blocks[other]
    found = locations_of(source, f"/blocks/{other}")
    lines: list[Directive] = []
    for place, condition in conditions(found).items():
        condition = replace(condition, alone=True)
        words = rewriting.interpolator(place, source.names[0])
        lines += rewriting.rules(Rewritten(place, condition, "", words, ",QSD"))
    return [part for line in lines for part in _for_hosts(line, hosts)]


def _for_hosts(line: Directive, hosts: str) -> list[Directive]:
    """Return the line; a rewrite rule is preceded by a condition that the Host header matches `hosts`."""
    asked = directive("RewriteCond", "%{HTTP_HOST}", hosts, "[NC]")
    return [asked, line] if line.name == "RewriteRule" else [line]


def _fixed(fallback: Place | None, source: ServerBlock) -> Place | None:
    """Return the location `fallback` if a rule of the virtual host must send its fixed response; otherwise None.

    `fallback` handles the last item of another location's try_files; None if no location is known to do so.
    """
    if fallback is None or fallback.location.handler != "return":
        return None
    if ruled.is_here(fallback.location, source) and not ruled.names_path(fallback.location):
        return None
    return fallback


def _to_https(port: int) -> list[Directive]:
    host = "%{SERVER_NAME}" if port == 443 else f"%{{SERVER_NAME}}:{port}"
    target = f"https://{host}%{{ENV:{RAW_URI}}}"
    return [directive("RewriteCond", "%{HTTPS}", "!on"), directive("RewriteRule", "^", target, "[R=301,NE,QSD,L]")]


def _proxied(spec: SiteSpec, place: Place, condition: Condition) -> list[Directive]:
    """Return a rewrite rule that replaces the prefix of the path for the upstream; a proxy context cannot."""
    source, at = place.location, place.pointer
    text = condition.own.text
    own = Expression(f"{text[:-1]}()$" if source.match == "=" else f"{text}(?s:(.*))$")
    url = f"http://{upstream_app(spec, source, at)}{source.proxy_uri}$1"
    return rewriting.rule(replace(condition, own=own), [], url, "[P,L]", at)


def _no_scripts(place: Place, condition: Condition) -> list[Directive]:
    """Return rewrite rules that reject scripts in a location of plain files. OpenLiteSpeed runs scripts by suffix in
    the whole virtual host.

    The rule tests the path by its pattern, which sees the decoded path; a condition would see `%70hp`.
    """
    own = Expression(r"^(?=(?s:.*)\.php(?:/|$))" + condition.own.text.removeprefix("^"))
    return rewriting.rule(replace(condition, own=own), [], "-", "[F,L]", place.pointer)


def _headers(spec: SiteSpec, number: int) -> tuple[Header, ...]:
    source, at = spec.blocks[number], f"/blocks/{number}"
    check_headers(source.headers, f"{at}/headers")
    for n, header in enumerate(source.headers):
        header_line(header, f"{at}/headers/{n}/value", spec, number)
    if source.hsts_max_age_s is not None and any(listen.tls for listen in source.listens):
        return (*source.headers, Header("Strict-Transport-Security", f"max-age={source.hsts_max_age_s}"))
    return source.headers


def _contexts(
    spec: SiteSpec, web_server: WebServerSpec, number: int, found: Locations, everywhere: tuple[Header, ...]
) -> list[Node]:
    plain, plain_scripts = prefixes_suffice(found), suffixes_suffice(found)
    nodes: list[Node] = []
    if everywhere and not any(place.is_prefix and place.pattern == "/" for place in found.places):
        lines = Lines("extraHeaders", tuple(header_line(item, "/headers", spec, number) for item in everywhere))
        nodes.append(block("context", "/", body=[directive("allowBrowse", 1), lines]))
    for place, condition in conditions(found).items():
        nodes += context(
            spec, web_server, place, condition, everywhere, plain_prefix=plain, plain_scripts=plain_scripts
        )
    nodes += _folders(spec, number, found, everywhere)
    return refusals.with_rules(nodes, spec.blocks[number])


def _folders(spec: SiteSpec, number: int, found: Locations, everywhere: tuple[Header, ...]) -> list[Node]:
    """Return the separate contexts that send redirects, refusals and errors for locations (see folders.contexts)."""
    source = spec.blocks[number]
    if refusals.says_itself(source.snippet, "rewrite"):
        return []

    def headers(place: Place | None, times: bool) -> tuple[str, ...]:
        if place is None:
            return tuple(header_line(item, "/headers", spec, number) for item in everywhere)
        return header_lines(spec, place.location, place.pointer, everywhere, times=times)

    return [*folders.contexts(source, found, headers)]


def _websockets(spec: SiteSpec, found: Locations) -> list[Node]:
    lines: list[Node] = []
    for place in found.prefixes:
        if place.location.handler == "proxy" and place.location.websocket:
            number, upstream = handlers.upstream_of(spec, place.location, place.pointer)
            address = checks.address(upstream.servers[0].address, f"/upstreams/{number}/servers/0/address")
            pattern = value(place.pattern, f"{place.pointer}/pattern")
            lines.append(block("websocket", pattern, body=[directive("address", address)]))
    return lines
