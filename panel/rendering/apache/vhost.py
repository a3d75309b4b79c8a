"""Render one server block as Apache virtual hosts: one for its plain ports, one for its TLS ports."""

from __future__ import annotations

from posixpath import dirname

from panel.rendering import challenges, checks, logformats, maintenance, names, snippets
from panel.rendering.apache import cache, rewriting
from panel.rendering.apache.modules import mpm
from panel.rendering.apache.quoting import Interpolator, expression, plain
from panel.rendering.apache.section import body_limit, brotli, gzip, header_line, index_files
from panel.rendering.apache.vhost_locations import locations_lines, server_name
from panel.rendering.errors import NotExpressible
from panel.rendering.headers import check as check_headers
from panel.rendering.spec import (
    ClientCertificates,
    ErrorPage,
    Header,
    Listen,
    ServerBlock,
    SiteSpec,
    TlsFiles,
    WebServerSpec,
)
from panel.rendering.tree import Directive, Node, Raw, block, directive


def hosts(spec: SiteSpec, web_server: WebServerSpec, source: ServerBlock, at: str) -> list[Node]:
    if not source.listens:
        raise NotExpressible(f"{at}/listens", "the server block has no port; add a port")
    secure = tuple(listen for listen in source.listens if listen.tls)
    plain_listens = tuple(listen for listen in source.listens if not listen.tls)
    if secure and source.tls is None:
        raise NotExpressible(f"{at}/tls", "the server block uses TLS but has no certificate; choose a certificate")
    found: list[Node] = []
    if plain_listens:
        if source.redirect_to_https:
            body = _redirect(spec, web_server, source, secure, at)
        else:
            body = _body(spec, web_server, source, at, secure=False)
        found.append(_host(spec, web_server, source, plain_listens, body, at))
    if secure:
        body = _body(spec, web_server, source, at, secure=True)
        found.append(_host(spec, web_server, source, secure, body, at))
    return found


def _host(
    spec: SiteSpec,
    web_server: WebServerSpec,
    source: ServerBlock,
    listens: tuple[Listen, ...],
    body: list[Node],
    at: str,
) -> Node:
    addresses = dict.fromkeys(_address(listen, at) for listen in listens)
    wanted = any(listen.http2 for listen in listens) and mpm(web_server) != "mpm_prefork"
    protocols = ["h2" if listens[0].tls else "h2c"] if wanted else []
    lines: list[Node] = [directive("Protocols", *protocols, "http/1.1")] if protocols else []
    if any(listen.port != (443 if listen.tls else 80) for listen in listens):
        # Redirects to a path use the actual port, even if the client's Host header has none.
        lines.append(directive("UseCanonicalPhysicalPort", "On"))
    return block("VirtualHost", *addresses, body=[*_names(spec, source, at), *lines, *body])


def _address(listen: Listen, at: str) -> str:
    """Return address and port of a virtual host. The address `*` covers IPv4 and IPv6, because Apache cannot separate
    them.
    """
    address = checks.listen_address(listen.address, f"{at}/listens")
    checks.port(listen.port, f"{at}/listens")
    if address in ("", "::"):
        return f"*:{listen.port}"
    return f"[{address}]:{listen.port}" if ":" in address else f"{address}:{listen.port}"


def _names(spec: SiteSpec, source: ServerBlock, at: str) -> list[Node]:
    main = server_name(spec, source)
    aliases: list[str] = []
    for number, name in enumerate(source.names):
        names.check(name, f"{at}/names/{number}")
        if names.kind(name) == "dot":
            aliases += [name[1:], f"*{name}"]
        elif names.kind(name) != "regex" and name != main:
            aliases.append(name.strip("[]") if names.is_ipv6(name) else name)  # Apache compares without brackets
    lines: list[Node] = [directive("ServerName", main)]
    return lines + ([directive("ServerAlias", *aliases)] if aliases else [])


def _redirect(
    spec: SiteSpec, web_server: WebServerSpec, source: ServerBlock, secure: tuple[Listen, ...], at: str
) -> list[Node]:
    port = secure[0].port if secure else 443
    if not spec.challenge_folder:
        return list(rewriting.to_https(port, web_server))
    only = challenges.alone(source, spec.challenge_folder)
    switch, *rules = rewriting.to_https(port, web_server)
    rules = [switch, *rewriting.challenges_first(spec), *rules]
    return [*_files(only, at), *rules, *locations_lines(spec, web_server, only, (), at)]


def _body(spec: SiteSpec, web_server: WebServerSpec, source: ServerBlock, at: str, *, secure: bool) -> list[Node]:
    everywhere = _headers(source, at, secure=secure)
    body = [
        *_files(source, at),
        *(_tls(source.tls, at) if secure and source.tls else []),
        *(_client_certificates(source.client_certificates, at) if secure else []),
        *_logs(source, web_server, at),
    ]
    body += [*_answers(source, at), *_printed(everywhere, spec, source, at), *_maintenance_page(spec)]
    body += cache.of_host(web_server, source)
    body += locations_lines(spec, web_server, source, everywhere, at)
    if source.snippet:
        body.append(Raw(snippets.require(source.snippet, web_server, f"{at}/snippet", "server")))
    return body


def _files(source: ServerBlock, at: str) -> list[Node]:
    # Without AllowEncodedSlashes, paths with %2F get 404.
    lines: list[Node] = [directive("AllowEncodedSlashes", "On")]
    if source.root:
        root = plain(checks.path(source.root, f"{at}/root"), f"{at}/root")
        lines.insert(0, directive("DocumentRoot", root, gap=True))
    lines.append(directive("DirectoryIndex", *(index_files(source.index, f"{at}/index") or ["index.html"])))
    for folder in _folders(source):
        options = ["FollowSymLinks", "Indexes"] if source.autoindex else ["FollowSymLinks"]
        body = [
            directive("Options", *options),
            directive("AllowOverride", "None"),
            directive("AllowMethods", "GET", "HEAD", "POST"),
            directive("Require", "all", "granted"),
            # Files only: scripts that are index files of folders accept POST.
            block("FilesMatch", ".", body=[directive("AllowMethods", "GET", "HEAD"), _default_type()], gap=False),
        ]
        lines.append(block("Directory", plain(folder, f"{at}/root"), body=body, gap=False))
    return lines


def _default_type() -> Directive:
    """Return the directive that sets Content-Type for files of unknown type, as nginx's default_type does, so that
    browsers do not guess.

    Apache no longer supports DefaultType (https://httpd.apache.org/docs/2.4/mod/core.html#defaulttype). Status 304 is
    excluded, because its responses have no type.
    """
    unknown = "expr=-z %{CONTENT_TYPE} && %{REQUEST_STATUS} != '304'"
    return directive("Header", "setifempty", "Content-Type", "application/octet-stream", unknown)


def _folders(source: ServerBlock) -> list[str]:
    """Return the folders from which the server block serves files, each once."""
    found = [source.root]
    for location in source.locations:
        if location.handler in ("static", "php"):
            found.append(location.root)
            fixed = location.alias.split("$")[0] if location.match in ("~", "~*") else location.alias
            found.append(fixed.rstrip("/") if fixed.endswith("/") else dirname(fixed))
    return list(dict.fromkeys(folder.rstrip("/") or "/" for folder in found if folder))


def _tls(tls: TlsFiles, at: str) -> list[Node]:
    certificate, key = f"{at}/tls/certificate_path", f"{at}/tls/key_path"
    return [
        directive("SSLEngine", "on", gap=True),
        directive("SSLProtocol", "-all", "+TLSv1.2", "+TLSv1.3"),
        directive("SSLCertificateFile", plain(checks.path(tls.certificate_path, certificate), certificate)),
        directive("SSLCertificateKeyFile", plain(checks.path(tls.key_path, key), key)),
    ]


def _client_certificates(source: ClientCertificates | None, at: str) -> list[Node]:
    """Return directives that check clients' certificates. If a certificate is required, a rewrite rule sends 400
    without a valid one, as nginx does.

    With `SSLVerifyClient require`, Apache would end the handshake instead. SSLVerifyDepth also counts the certificate
    authority, so it is one more than the depth of `source`.
    """
    if source is None:
        return []
    at = f"{at}/client_certificates"
    ca = plain(checks.path(source.ca_path, f"{at}/ca_path"), f"{at}/ca_path")
    lines: list[Node] = [
        directive("SSLVerifyClient", "optional"),
        directive("SSLVerifyDepth", source.depth + 1),
        directive("SSLCACertificateFile", ca),
    ]
    if source.crl:
        crl = plain(checks.path(source.crl_path, f"{at}/crl_path"), f"{at}/crl_path")
        lines += [directive("SSLCARevocationFile", crl), directive("SSLCARevocationCheck", "chain")]
    if source.required:
        lines += [
            directive("RewriteEngine", "On"),
            directive("RewriteCond", "%{SSL:SSL_CLIENT_VERIFY}", "!=SUCCESS"),
            directive("RewriteRule", "^", "-", "[R=400,L]"),
        ]
    return lines


def _logs(source: ServerBlock, web_server: WebServerSpec, at: str) -> list[Node]:
    lines: list[Node] = []
    if source.access_log == "off":
        # Without its own log, a virtual host writes to the server's log.
        lines.append(directive("CustomLog", "/dev/null", "common", gap=True))
    elif source.access_log:
        path = checks.log_path(source.access_log, (web_server.log_dir, *web_server.site_roots), f"{at}/access_log")
        form = logformats.APACHE[logformats.check(source.access_log_format, f"{at}/access_log_format")]
        lines.append(directive("CustomLog", plain(path, f"{at}/access_log"), form, gap=True))
    if source.error_log:
        path = checks.log_path(source.error_log, (web_server.log_dir, *web_server.site_roots), f"{at}/error_log")
        level = checks.log_level(source.error_log_level, f"{at}/error_log_level")
        lines += [directive("ErrorLog", plain(path, f"{at}/error_log")), directive("LogLevel", level)]
    return lines


def _answers(source: ServerBlock, at: str) -> list[Node]:
    types = tuple(checks.mime_type(kind, f"{at}/gzip_types/{n}") for n, kind in enumerate(source.gzip_types))
    lines = [*body_limit(source.client_max_body_mb), *_header_limit(source.client_max_header_kb)]
    lines += [*brotli(source.brotli, types), *gzip(source.gzip, types)]
    for number, page in enumerate(source.error_pages):
        lines += _error_page(page, f"{at}/error_pages/{number}")
    return lines


def _header_limit(kilobytes: int | None) -> list[Node]:
    if kilobytes is None:
        return []
    return [
        directive("LimitRequestLine", kilobytes * 1024),
        directive("LimitRequestFieldSize", kilobytes * 1024),
    ]


def _error_page(page: ErrorPage, at: str) -> list[Node]:
    uri = expression(checks.target(page.uri, f"{at}/uri"))
    return [directive("ErrorDocument", code, uri) for code in checks.error_codes(page.codes, f"{at}/codes")]


def _headers(source: ServerBlock, at: str, *, secure: bool) -> tuple[Header, ...]:
    check_headers(source.headers, f"{at}/headers")
    if secure and source.hsts_max_age_s is not None:
        return (*source.headers, Header("Strict-Transport-Security", f"max-age={source.hsts_max_age_s}"))
    return source.headers


def _printed(headers: tuple[Header, ...], spec: SiteSpec, source: ServerBlock, at: str) -> list[Node]:
    words = Interpolator(server_name(spec, source), {}, frozenset())
    return [
        header_line(header, words.header(header.value, f"{at}/headers/{n}/value")) for n, header in enumerate(headers)
    ]


def _maintenance_page(spec: SiteSpec) -> list[Node]:
    if spec.maintenance is None:
        return []
    asked = f"expr=%{{REQUEST_STATUS}} == '{maintenance.STATUS}'"
    return [
        directive("ErrorDocument", maintenance.STATUS, expression(maintenance.page(spec.maintenance)), gap=True),
        directive("Header", "always", "set", "Retry-After", spec.maintenance.retry_after_s, asked),
        directive("Header", "always", "set", "Cache-Control", "no-store", asked),
    ]
