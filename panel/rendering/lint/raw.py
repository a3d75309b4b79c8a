"""Find mistakes in raw directives, which are parsed by the grammar of the web server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from panel.rendering import variables
from panel.rendering.errors import NotExpressible
from panel.rendering.lint import access, start
from panel.rendering.lint.finding import Finding, Fix, part
from panel.rendering.readers import Read, Unreadable
from panel.rendering.readers.engines import NGINX_SYNTAX, READERS
from panel.rendering.spec import Location, ServerBlock
from panel.rendering.targets import is_name, target_of

_WEAK = {"sslv2", "sslv3", "tlsv1", "tlsv1.0", "tlsv1.1"}
_WEAK_CIPHERS = re.compile(r"(?:^|[:+ ,])(?:RC4|DES|3DES|MD5|NULL|EXP\w*|aNULL|eNULL|ADH|LOW)\b", re.IGNORECASE)
# An upstream that the visitor chooses, or whose name the visitor can extend. A path begins with a slash, so it ends the
# name.
_OPEN = re.compile(
    r"https?://(?:[^/]*?\$\{?(?:http_|host\b|arg_|cookie_|args\b|query_string\b|\d)|\$\{?(?:request_)?uri\b)"
)
_OPEN_REWRITE = re.compile(r"(?:https?|ws)://[^/]*(?:%\{(?:HTTP_HOST|QUERY_STRING|HTTP:)|\$\d|%\d)")
_PASSES = {"proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"}
_HARMLESS_IN_IF = {"return", "rewrite", "break", "set"}


def of_block(block: ServerBlock, where: str, engine: str) -> Iterator[Finding]:
    yield from _tls(block.snippet, where, engine)
    yield from _open_proxy(block.snippet, where, engine)


def of_location(block: ServerBlock, location: Location, where: str, engine: str) -> Iterator[Finding]:
    yield from _tls(location.snippet, where, engine)
    yield from _open_proxy(location.snippet, where, engine)
    if engine in NGINX_SYNTAX:
        yield from _names_at_start(location, where, engine)
        yield from _lost_headers(block, location, where, engine)
        yield from _if(location, where, engine)
        yield from access.status_shown(location, where, _read(location.snippet, engine))


def _read(text: str, engine: str) -> tuple[Read, ...]:
    try:
        return READERS[engine](text) if text else ()
    except Unreadable:
        return ()  # reported by the check of the snippet


def _all(items: Iterable[Read]) -> Iterator[Read]:
    for item in items:
        yield item
        yield from _all(item.body or ())


def _without(text: str, gone: Iterable[Read], engine: str) -> str | None:
    """Return the text without the lines of the directives `gone`; None if other directives share those lines."""
    own = list(gone)
    lines = {number for item in own for number in range(item.line, max(item.line, item.end) + 1)}
    inside = {id(child) for item in own for child in _all((item,))}
    others = [item for item in _all(_read(text, engine)) if not any(item == known for known in own)]
    for item in others:
        is_around = item.body is not None and item.line not in lines and item.end not in lines
        touches = any(number in lines for number in range(item.line, max(item.line, item.end) + 1))
        is_within = any(item.line >= known.line and item.end <= known.end and known.body for known in own)
        if touches and not is_around and not is_within and id(item) not in inside:
            return None
    return "\n".join(line for number, line in enumerate(text.split("\n"), 1) if number not in lines)


def _replacing(where: str, engine: str, text: str, **members: Any) -> Fix:
    def fix(definition: dict[str, Any]) -> None:
        found = part(definition, where)
        snippets = {name: value for name, value in found.get("snippets", {}).items() if name != engine}
        found["snippets"] = snippets | ({engine: text} if text.strip() else {})
        found.update(members)

    return fix


def _removable(code: str, where: str, engine: str, text: str, item: Read, what: str, why: str) -> Finding:
    rest = _without(text, [item], engine)
    if rest is None:
        return Finding(code, where, what, why, is_raw=True)
    fix = f"Remove {item.name} from the raw directives"
    return Finding(code, where, what, why, fix, _replacing(where, engine, rest), is_raw=True)


# --- names ---


def _names_at_start(location: Location, where: str, engine: str) -> Iterator[Finding]:
    """Yield a finding for each upstream with a fixed host name, which nginx resolves when it starts. Names with
    variables are resolved for each request.
    """
    for item in _all(_read(location.snippet, engine)):
        target = item.args[0] if item.args else ""
        if item.name in _PASSES and "$" not in target and is_name(target):
            yield start.name_at_start(where, target_of(target).host, engine)


# --- TLS ---


def _tls(text: str, where: str, engine: str) -> Iterator[Finding]:
    for item in _all(_read(text, engine)):
        weak = _weak(item, engine)
        if weak:
            yield _removable(
                "weak-tls",
                where,
                engine,
                text,
                item,
                f"{item.name} allows {weak}.",
                "Attackers on the network can read or change these connections (RFC 8996, RFC 7465). "
                "Paddock's own configuration uses TLS 1.2 and 1.3 with current ciphers.",
            )


def _weak(item: Read, engine: str) -> str:
    name, values = item.name.lower(), [value.lower() for value in item.args]
    if name == "ssl_protocols":
        return ", ".join(value for value in item.args if value.lower() in _WEAK)
    if name == "sslprotocol" and engine == "apache":
        return _apache_protocols(values)
    if name == "sslprotocol" and values and values[0].isdigit():
        return "protocols before TLS 1.2" if int(values[0]) & 7 else ""
    if name in ("ssl_ciphers", "sslciphersuite", "ciphers"):
        found = [match[0].strip(":+ ,") for value in item.args for match in _WEAK_CIPHERS.finditer(value)]
        return ", ".join(dict.fromkeys(found))
    return ""


def _apache_protocols(values: list[str]) -> str:
    """Return the names of the weak protocols that SSLProtocol enables, as text with commas; "" if none.

    `all` is every protocol, `-x` removes one, `+x` or `x` adds one.
    """
    allowed: set[str] = set()
    for value in values:
        names = {"tlsv1", "tlsv1.1", "sslv3"} if value.lstrip("+-") == "all" else {value.lstrip("+-")}
        allowed = allowed - names if value.startswith("-") else allowed | names
    return ", ".join(sorted(allowed & _WEAK))


# --- proxies ---


def _open_proxy(text: str, where: str, engine: str) -> Iterator[Finding]:
    for item in _all(_read(text, engine)):
        name = item.name.lower()
        is_open = name in ("proxy_pass", "fastcgi_pass") and bool(item.args) and _OPEN.match(item.args[0])
        flags = item.args[2].strip("[]").lower().split(",") if len(item.args) > 2 else []
        is_open = is_open or (
            name == "rewriterule" and bool({"p", "proxy"} & set(flags)) and _OPEN_REWRITE.match(item.args[1])
        )
        if is_open:
            yield _removable(
                "open-proxy",
                where,
                engine,
                text,
                item,
                f"The directive {item.name} passes requests to any address that the visitor chooses.",
                "Anyone can reach other machines through this web server, including internal ones such "
                "as metadata services and admin panels that trust it.",
            )


# --- nginx ---


def _lost_headers(block: ServerBlock, location: Location, where: str, engine: str) -> Iterator[Finding]:
    if location.headers or not (block.headers or block.hsts_max_age_s):
        return
    own = [item for item in _read(location.snippet, engine) if item.name == "add_header" and len(item.args) > 1]
    if not own:
        return
    lost = [header.name for header in block.headers] + (["Strict-Transport-Security"] if block.hsts_max_age_s else [])
    headers = [{"name": item.args[0], "value": item.args[1], "always": "always" in item.args[2:]} for item in own]
    rest = _without(location.snippet, own, engine)
    fits = rest is not None and all(_is_known(str(header["value"])) for header in headers)
    yield Finding(
        "headers-lost",
        where,
        f"The directive add_header in the raw directives of the location {location.pattern} removes the server "
        f"block's headers: {', '.join(lost)}.",
        "In nginx, a location inherits headers only if it has no directive add_header itself.",
        "Replace add_header by response headers of the location" if fits else "",
        _replacing(where, engine, rest or "", headers=headers) if fits else None,
        is_raw=True,
    )


def _is_known(value: str) -> bool:
    try:
        variables.parse(value, "")
    except NotExpressible:
        return False
    return True


def _if(location: Location, where: str, engine: str) -> Iterator[Finding]:
    for item in _read(location.snippet, engine):
        if item.name != "if" or item.body is None:
            continue
        fallback = _fallback(item)
        unsafe = sorted({child.name for child in item.body} - _HARMLESS_IN_IF)
        if not fallback and not unsafe:
            continue
        rest = _without(location.snippet, [item], engine) if fallback and not location.try_files else None
        items = ["$uri", "$uri/", fallback]
        what = (
            f"An if block in a location contains {', '.join(unsafe)}."
            if unsafe
            else "An if block checks for a file on every request."
        )
        yield Finding(
            "if-misuse",
            where,
            what,
            "An if block is an implicit location that inherits few settings: nginx skips other directives of the "
            "location, and crashes with some combinations. try_files does the same in one step.",
            f"Use try_files {' '.join(items)}" if rest is not None else "",
            _replacing(where, engine, rest, try_files=items) if rest is not None else None,
            is_raw=True,
        )


def _fallback(item: Read) -> str:
    """Return the path of the script in `if (!-e $request_filename) { rewrite . /index.php last; }`; "" for any other
    `if`.
    """
    test = " ".join(item.args).strip("()").split()
    if test not in (["!-e", "$request_filename"], ["!-f", "$request_filename"]) or len(item.body or ()) != 1:
        return ""
    (only,) = item.body or ()
    is_all = only.name == "rewrite" and len(only.args) > 1 and only.args[0] in (".", "^", ".*", "^.*$", "^(.*)$", "^/")
    return only.args[1] if is_all and re.fullmatch(r"/[A-Za-z0-9._/-]+", only.args[1]) else ""
