"""Render values of response headers, in which `%{NAME}e` is a variable of the server or of rewrite rules.

Source: HttpReq::createHeaderValue and RequestVars::parseBuiltIn (src/http). Request headers have no such variables.
Values that could contain a line break (a path, a capture) are rejected, because they would be inserted unescaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from panel.rendering import handlers, variables
from panel.rendering.apache.quoting import RAW_URI
from panel.rendering.errors import NotExpressible
from panel.rendering.openlitespeed.quoting import header as quoted
from panel.rendering.spec import Header, ServerBlock, SiteSpec
from panel.rendering.tree import Directive, directive
from panel.rendering.variables import Variable

SCHEME = "PADDOCK_SCHEME"
HOST = "PADDOCK_HOST"
_SERVERS = {
    "host": HOST,
    "args": "QUERY_STRING",
    "query_string": "QUERY_STRING",
    "remote_addr": "REMOTE_ADDR",
    "remote_port": "REMOTE_PORT",
    "request_method": "REQUEST_METHOD",
}
_PLAIN = re.compile(r"[A-Za-z0-9_.*-]+\Z")
_TO_PATH = re.compile(rf"""(["']?)(/(?!/).*|%\{{(?:REQUEST_URI|ENV:{RAW_URI})\}}.*)\Z""", re.S)
_REDIRECTS = re.compile(r"[\[,]R=30\d\b")
_UNKNOWN = re.compile(r"(?<!\\)((?:\\\\)*)%\{(REQUEST_SCHEME|SERVER_NAME)\}")


def header_line(header: Header, field: str, spec: SiteSpec, number: int) -> str:
    """Return the line that sets a response header in server block `number`."""
    parts = variables.parse(header.value, field)
    text = "".join(
        part.replace("%", "%%") if isinstance(part, str) else _reference(part, field, spec, number) for part in parts
    )
    return f"Header set {header.name} {quoted(text, field)}"


def request_header_line(header: Header, field: str) -> str:
    parts = variables.parse(header.value, field)
    if not all(isinstance(part, str) for part in parts):
        raise NotExpressible(
            field, "OpenLiteSpeed does not support variables in request headers to the upstream; use a fixed value"
        )
    return f"RequestHeader set {header.name} {quoted(''.join(map(str, parts)), field)}"


def server_name(spec: SiteSpec, number: int) -> str:
    """Return the value of `$server_name` in server block `number`."""
    names = spec.blocks[number].names
    return names[0] if names else f"{spec.name}.invalid"


def is_sayable(name: str, source: ServerBlock) -> bool:
    """Return whether a response header of the server block can contain nginx's variable `name`."""
    if name == "server_port":
        return len({listen.port for listen in source.listens}) == 1
    return name in (*_SERVERS, "scheme", "server_name", "request_uri") or name.startswith("http_")


def _reference(part: Variable, field: str, spec: SiteSpec, number: int) -> str:
    source = spec.blocks[number]
    if not is_sayable(part.name, source):
        raise NotExpressible(
            field,
            f"OpenLiteSpeed's headers cannot contain ${part.name}; use a fixed value or a variable "
            "without line breaks: $host, $scheme, $request_uri, $args, $request_method, $remote_addr, "
            "or a request header ($http_...)",
        )
    if part.name == "server_port":
        return str(source.listens[0].port)
    if part.name == "server_name":
        return server_name(spec, number).replace("%", "%%")
    if part.name == "scheme":
        return _scheme(source) or f"%{{{SCHEME}}}e"
    if part.name == "request_uri":
        return f"%{{{RAW_URI}}}e"
    return f"%{{{_SERVERS.get(part.name) or _kept_as(part.name)}}}e"


def _scheme(source: ServerBlock) -> str:
    """Return the scheme of the server block; "" if the block serves HTTP and HTTPS."""
    schemes = {"https" if listen.tls else "http" for listen in source.listens}
    return schemes.pop() if len(schemes) == 1 else ""


def _kept_as(name: str) -> str:
    return f"PADDOCK_{name.upper()}"


def in_own_words(rules: list[Directive], source: ServerBlock) -> list[Directive]:
    """Return the rewrite rules with Apache's variables for `$scheme` and `$host` replaced by those that OpenLiteSpeed
    has, and with full URLs as targets of redirects.

    OpenLiteSpeed has no REQUEST_SCHEME, and a single unknown variable invalidates all rules. Its SERVER_NAME keeps a
    final dot of the host.
    """
    said = {"REQUEST_SCHEME": _scheme(source) or f"%{{ENV:{SCHEME}}}", "SERVER_NAME": f"%{{ENV:{HOST}}}"}

    def known(word: str) -> str:
        return _UNKNOWN.sub(lambda found: found[1] + said[found[2]], word)

    return [_absolute(replace(rule, args=tuple(map(known, rule.args))), source) for rule in rules]


def origin(source: ServerBlock) -> str:
    """Return scheme, host and port of the server block's URLs, for the target of a rewrite rule; "" if the server block
    has several ports.
    """
    if (port := _port(source)) is None:
        return ""
    scheme = _scheme(source) or f"%{{ENV:{SCHEME}}}"
    return f"{scheme}://%{{ENV:{HOST}}}{port}"


def _absolute(rule: Directive, source: ServerBlock) -> Directive:
    """Return a rewrite rule; if it redirects to a path, the target becomes a full URL with the listener's port, as in
    nginx.

    OpenLiteSpeed would use the port of the Host header.
    """
    found = _TO_PATH.match(rule.args[1]) if rule.name == "RewriteRule" and len(rule.args) > 2 else None
    if found is None or not _REDIRECTS.search(rule.args[2]) or not (start := origin(source)):
        return rule
    return replace(rule, args=(rule.args[0], f"{found[1]}{start}{found[2]}", *rule.args[2:]))


def _port(source: ServerBlock) -> str | None:
    """Return the part `:PORT` of the server block's URLs: "" for the usual port, None if it has several ports."""
    usual = {True: 443, False: 80}
    ports = {"" if listen.port == usual[listen.tls] else f":{listen.port}" for listen in source.listens}
    return ports.pop() if len(ports) == 1 else None


def rules_for(spec: SiteSpec, number: int, rules: Sequence[Directive]) -> list[Directive]:
    """Return rewrite rules that record scheme, host and request headers in environment variables, as far as `rules` and
    the headers of server block `number` use them.
    """
    source = spec.blocks[number]
    names = _said(source)
    found: list[Directive] = []
    if _say(rules, SCHEME) or ("scheme" in names and not _scheme(source)):
        found += [
            directive("RewriteRule", "^", "-", f"[E={SCHEME}:http]"),
            directive("RewriteCond", "%{HTTPS}", "=on"),
            directive("RewriteRule", "^", "-", f"[E={SCHEME}:https]"),
        ]
    if _say(rules, HOST) or "host" in names:
        if _PLAIN.match(name := server_name(spec, number)):  # for requests without a host
            found.append(directive("RewriteRule", "^", "-", f"[E={HOST}:{name}]"))
        found.append(directive("RewriteCond", "%{SERVER_NAME}", r"^(.+?)\.?$"))
        found.append(directive("RewriteRule", "^", "-", f"[E={HOST}:%1]"))
    for name in sorted(names):
        if name.startswith("http_"):
            found.append(directive("RewriteCond", f"%{{HTTP:{name[5:].replace('_', '-')}}}", "^(.*)$"))
            found.append(directive("RewriteRule", "^", "-", f"[E={_kept_as(name)}:%1]"))
    return found


def _say(rules: Sequence[Directive], name: str) -> bool:
    return any(f"%{{ENV:{name}}}" in word for rule in rules for word in rule.args)


def says_raw_uri(source: ServerBlock) -> bool:
    """Return whether rewrite rules must record the original path, because headers or fixed responses use it."""
    return "request_uri" in _said(source)


def _said(source: ServerBlock) -> set[str]:
    """Return the names of the variables in the server block's headers and fixed responses, including those needed for
    redirects to a path.
    """
    every = [*source.headers, *(header for place in source.locations for header in place.headers)]
    headers = [variables.names(header.value) for header in every]
    fixed = [variables.names(place.return_value, handlers.captures(place)) for place in source.locations]
    paths = any(place.return_code in handlers.REDIRECTS and place.return_value[:1] == "/" for place in source.locations)
    return set().union(*headers, *fixed, {"host", "scheme"} if paths and _port(source) is not None else ())
