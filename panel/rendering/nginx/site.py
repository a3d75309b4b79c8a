"""Render one site as nginx server blocks, with its own zones, maps and upstreams."""

from __future__ import annotations

from dataclasses import replace

from panel.rendering import challenges, checks, maintenance, snippets
from panel.rendering.errors import NotExpressible
from panel.rendering.headers import check as check_headers
from panel.rendering.locations import locations_of
from panel.rendering.names import check as check_name
from panel.rendering.nginx import confining
from panel.rendering.nginx.location import add_headers, brotli, gzip, index_files, location, rewrites
from panel.rendering.nginx.quoting import no_variables, prefix
from panel.rendering.nginx.scope import Scope
from panel.rendering.nginx.shared import listen_place, tls_settings, upstream_servers
from panel.rendering.spec import (
    ClientCertificates,
    ErrorPage,
    Header,
    Listen,
    ServerBlock,
    SiteSpec,
    Upstream,
    WebServerSpec,
)
from panel.rendering.tree import Node, Raw, block, directive

_TO_THE_PAGE = 598  # no response has this status


def site(spec: SiteSpec, web_server: WebServerSpec) -> tuple[Node, ...]:
    scope = Scope(spec, web_server)
    servers: list[Node] = []
    for number, server_block in enumerate(spec.blocks):
        if scope.shows_challenges:
            server_block = challenges.with_tls_listener(server_block, spec.tls_challenge_port)
        servers += _servers(scope, server_block, f"/blocks/{number}")
    upstreams = [_upstream(scope, upstream, f"/upstreams/{n}") for n, upstream in enumerate(spec.upstreams)]
    return (*scope.shared(), *upstreams, *servers)


def _upstream(scope: Scope, upstream: Upstream, at: str) -> Node:
    body: list[Node] = []
    if upstream.balancing != "round_robin":
        body.append(directive(upstream.balancing))
    body += upstream_servers(upstream, at)
    if upstream.keepalive:
        body.append(directive("keepalive", upstream.keepalive))
    return block("upstream", f"{prefix(scope.spec.name)}_{upstream.name}", body=body)


def _servers(scope: Scope, server_block: ServerBlock, at: str) -> list[Node]:
    """Return one nginx `server` block; two if ports without TLS redirect to HTTPS, and the server block also has ports
    with TLS.
    """
    if not server_block.listens:
        raise NotExpressible(f"{at}/listens", "the server block has no port; add a port")
    secure = tuple(listen for listen in server_block.listens if listen.tls)
    plain = tuple(listen for listen in server_block.listens if not listen.tls)
    if secure and server_block.tls is None and not scope.shows_challenges:
        raise NotExpressible(f"{at}/tls", "the server block uses TLS but has no certificate; choose a certificate")
    if not (server_block.redirect_to_https and plain):
        return [_server(scope, server_block, at)]
    servers = [_redirect(scope, server_block, plain, secure, at)]
    if secure:
        servers.append(_server(scope, replace(server_block, listens=secure), at))
    return servers


def _redirect(
    scope: Scope, source: ServerBlock, plain: tuple[Listen, ...], secure: tuple[Listen, ...], at: str
) -> Node:
    port = secure[0].port if secure else 443
    host = "$host" if port == 443 else f"$host:{port}"
    body = [*_listens(scope, plain, at), *_names(source, at), *_counted(scope)]
    moved = directive("return", 301, f"https://{host}$request_uri", gap=True)
    if not (folder := scope.spec.challenge_folder):
        return block("server", body=[*body, moved])
    only = challenges.alone(replace(source, listens=plain), folder)  # a `return` at server level would run first
    body += confining.folders(scope, only, at)
    body += [location(scope, place, ()) for place in locations_of(only, at).places]
    return block("server", body=[*body, block("location", "/", body=[moved])])


def _server(scope: Scope, source: ServerBlock, at: str) -> Node:
    everywhere = block_headers(scope, source, at)
    scope.brotli = False
    body = [*_listens(scope, source.listens, at), *_names(source, at), *_counted(scope), *_files(source, at)]
    if source.tls is not None and any(listen.tls for listen in source.listens):
        body += tls_settings(source.tls, at, zone="paddock_tls")
        body += _client_certificates(source.client_certificates, at)
    if scope.shows_challenges and any(listen.tls for listen in source.listens):
        body.append(directive("acme_tls_challenges", scope.spec.challenge_folder, gap=True))
        body += [directive("ssl_reject_handshake", "on")] if source.tls is None else []
    body += [
        *confining.folders(scope, source, at),
        *_logs(scope, source, at),
        *_answers(scope, source, at),
        *add_headers(scope, everywhere, at),
    ]
    body += _maintenance(scope, at)
    body += [*_challenges_first(scope, source), *confining.line_breaks(source)]
    body += rewrites(scope, source.rewrites, f"{at}/rewrites", checked=source.rewrites)
    for place in locations_of(source, at).places:
        body.append(location(scope, place, everywhere))
    if source.snippet:
        body.append(Raw(snippets.require(source.snippet, scope.web_server, f"{at}/snippet", "server")))
    return block("server", body=body)


def _maintenance(scope: Scope, at: str) -> list[Node]:
    """Return the directives of the maintenance page, which nginx evaluates before the rest of the server block.

    An otherwise unused status leads to the page, so the site's error pages stay unchanged for allowed visitors.
    """
    settings = scope.spec.maintenance
    if settings is None:
        return []
    waits = scope.variable("waits")
    allowed = [directive(checks.source(item, f"{at}/maintenance"), "0") for item in settings.allowed]
    if not any(waits in line.args[-1] for line in scope.maps):  # one for all server blocks
        scope.maps.append(block("geo", f"${waits}", body=[directive("default", "1"), *allowed]))
    page = scope.dollars.literal(maintenance.page(settings), "/maintenance/text")
    now = f"${scope.variable('waits_now')}"
    return [
        directive("set", now, f"${waits}", gap=True),
        block("if", "($uri", "~", f"{challenges.PATHS})", body=[directive("set", now, "0")]),
        block("if", f"({now})", body=[directive("return", _TO_THE_PAGE)]),
        directive("error_page", _TO_THE_PAGE, f"={maintenance.STATUS}", f"@{waits}"),
        block(
            "location",
            f"@{waits}",
            body=[
                directive("default_type", "text/html"),
                directive("add_header", "Retry-After", settings.retry_after_s, "always"),
                directive("add_header", "Cache-Control", "no-store", "always"),
                directive("return", maintenance.STATUS, page),
            ],
        ),
    ]


def _challenges_first(scope: Scope, source: ServerBlock) -> list[Node]:
    """Return an `if` that skips the server block's rewrites for paths of ACME challenges.

    [] without a challenge folder, or without rewrites and raw directives. Rewrites and raw directives at server level
    run before nginx chooses a location.
    """
    if not scope.spec.challenge_folder or not (source.rewrites or source.snippet):
        return []
    return [block("if", "($uri", "~", f"{challenges.PATHS})", body=[directive("break")], gap=True)]


def _listens(scope: Scope, listens: tuple[Listen, ...], at: str) -> list[Node]:
    lines: list[Node] = []
    for number, listen in enumerate(listens):
        where = listen_place(listen.address, listen.port, f"{at}/listens/{number}")
        words = ["ssl"] if listen.tls else []
        words += ["http2"] if listen.http2 and not scope.dialect.http2_directive else []
        words += ["default_server"] if listen.default_server else []
        lines.append(directive("listen", where, *words))
        if listen.http3 and listen.tls and scope.dialect.http3:
            # For each port, one server can set reuseport and one can be the default.
            unique = ["default_server", "reuseport"] if listen.default_server else []
            lines.append(directive("listen", where, "quic", *unique))
    if scope.dialect.http2_directive and any(listen.http2 for listen in listens):
        lines.append(directive("http2", "on"))
    return lines


def _names(source: ServerBlock, at: str) -> list[Node]:
    names = [check_name(name, f"{at}/names/{number}") for number, name in enumerate(source.names)]
    # `.a` covers `a` and `*.a`; next to one of them nginx would ignore it.
    covered = {form for name in names if name.startswith(".") for form in (name[1:], f"*{name}")}
    names = [name for name in names if name not in covered]
    return [directive("server_name", *names)] if names else []


def _counted(scope: Scope) -> list[Node]:
    """Return the directive with which gallop counts the requests of all server blocks of a site; [] for nginx."""
    return [directive("status_zone", scope.spec.name)] if scope.web_server.engine == "native" else []


def _files(source: ServerBlock, at: str) -> list[Node]:
    lines: list[Node] = []
    if source.root:
        root = no_variables(checks.path(source.root, f"{at}/root"), f"{at}/root")
        lines.append(directive("root", root, gap=True))
    if source.index:
        lines.append(directive("index", *index_files(source.index, f"{at}/index")))
    if source.autoindex:
        lines.append(directive("autoindex", "on"))
    return lines


def _client_certificates(source: ClientCertificates | None, at: str) -> list[Node]:
    if source is None:
        return []
    at = f"{at}/client_certificates"
    lines = [
        directive("ssl_verify_client", "on" if source.required else "optional"),
        directive(
            "ssl_client_certificate", no_variables(checks.path(source.ca_path, f"{at}/ca_path"), f"{at}/ca_path")
        ),
        directive("ssl_verify_depth", source.depth),
    ]
    if source.crl:
        crl = no_variables(checks.path(source.crl_path, f"{at}/crl_path"), f"{at}/crl_path")
        lines.append(directive("ssl_crl", crl))
    return list(lines)


def _logs(scope: Scope, source: ServerBlock, at: str) -> list[Node]:
    lines: list[Node] = []
    if source.access_log == "off":
        lines.append(directive("access_log", "off", gap=True))
    elif source.access_log:
        path = checks.log_path(source.access_log, scope.log_roots, f"{at}/access_log")
        name = scope.log_format(source.access_log_format, f"{at}/access_log_format")
        lines.append(directive("access_log", no_variables(path, f"{at}/access_log"), *name, gap=True))
    if source.error_log:
        path = checks.log_path(source.error_log, scope.log_roots, f"{at}/error_log")
        level = checks.log_level(source.error_log_level, f"{at}/error_log_level")
        lines.append(directive("error_log", no_variables(path, f"{at}/error_log"), level))
    return lines


def _answers(scope: Scope, source: ServerBlock, at: str) -> list[Node]:
    lines: list[Node] = []
    if source.client_max_body_mb is not None:
        lines.append(directive("client_max_body_size", f"{source.client_max_body_mb}m"))
    if source.client_max_header_kb is not None:
        lines.append(directive("large_client_header_buffers", 4, f"{source.client_max_header_kb}k"))
    lines += gzip(source.gzip)
    types = [checks.mime_type(kind, f"{at}/gzip_types/{n}") for n, kind in enumerate(source.gzip_types)]
    if kinds := [kind for kind in types if kind != "text/html"]:  # always compressed by nginx
        lines.append(directive("gzip_types", *kinds))
    lines += brotli(scope, source.brotli, kinds)
    for number, page in enumerate(source.error_pages):
        lines.append(_error_page(scope, page, f"{at}/error_pages/{number}"))
    return lines


def _error_page(scope: Scope, page: ErrorPage, at: str) -> Node:
    codes = checks.error_codes(page.codes, f"{at}/codes")
    uri = checks.target(page.uri, f"{at}/uri")
    answer = [f"={checks.status(page.response, f'{at}/response')}"] if page.response is not None else []
    return directive("error_page", *codes, *answer, scope.dollars.literal(uri, f"{at}/uri"))


def block_headers(scope: Scope, source: ServerBlock, at: str) -> tuple[Header, ...]:
    """Return the server block's response headers, and the headers that result from its TLS settings (HSTS, Alt-Svc).
    Their values are not quoted yet.
    """
    check_headers(source.headers, f"{at}/headers")
    headers = list(source.headers)
    secure = [listen for listen in source.listens if listen.tls]
    if source.hsts_max_age_s is not None and secure:
        value = f"max-age={source.hsts_max_age_s}"
        if len(secure) < len(source.listens):  # RFC 6797 section 7.2: never over plain HTTP
            value = scope.only_encrypted(f"hsts_{at.rsplit('/', 1)[-1]}", value)
        headers.append(Header("Strict-Transport-Security", value))
    if quic := [listen for listen in secure if listen.http3 and scope.dialect.http3]:
        headers.append(Header("Alt-Svc", f'h3=":{quic[0].port}"; ma=86400'))
    return tuple(headers)
