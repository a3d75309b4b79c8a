"""Check values of a site for all engines, before any engine quotes them. The functions raise NotExpressible."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

from panel.rendering.errors import NotExpressible
from panel.rendering.roots import is_below
from panel.rendering.spec import SiteSpec, WebServerSpec

SITE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
PART_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")  # RFC 9110 section 5.6.2
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\Z")
HOST_PORT = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+))(?::(?P<port>\d{1,5}))?\Z")
MIME_TYPE = re.compile(r"(\*|[A-Za-z0-9.+-]+/[A-Za-z0-9.+*-]+)\Z")
INI_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
USER_NAME = re.compile(r"[^\x00-\x20\x7f:]+\Z")
BCRYPT = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}\Z")


def refuse(field: str, message: str) -> NotExpressible:
    return NotExpressible(field, message)


def text(value: str, field: str, *, lines: bool = False) -> str:
    """Return `value`; raise NotExpressible unless it is valid Unicode without control characters. `lines` allows line
    feeds and tabs.
    """
    if value.isprintable():  # fast path for nearly all values
        return value
    for character in value:
        code = ord(character)
        if (code < 32 or code == 127) and not (lines and character in "\n\t"):
            raise refuse(field, f"the text contains the control character U+{code:04X}; remove it")
        if 0xD800 <= code <= 0xDFFF:
            raise refuse(field, "the text contains half of a surrogate pair, which is not valid Unicode; remove it")
    return value


def path(value: str, field: str) -> str:
    """Return `value`; raise NotExpressible unless it is an absolute path without `..`, which every web server reads as
    the same path.
    """
    text(value, field)
    if not value.startswith("/"):
        raise refuse(field, f"“{value}” is not an absolute path; start it with /")
    if ".." in value.split("/"):
        raise refuse(field, f"“{value}” contains ..; enter the resolved path")
    return value


def log_path(value: str, roots: tuple[str, ...], field: str) -> str:
    """Return the path `value`; raise NotExpressible unless it is below one of `roots`, the log folder and site folders.
    The limit is needed because the server writes logs as root.
    """
    path(value, field)
    if not is_below(value, roots):
        folders = ", ".join(filter(None, roots))
        raise refuse(field, f"“{value}” is outside the log folders ({folders}); choose a file in one of them")
    return value


def word(value: str, pattern: re.Pattern[str], field: str, what: str) -> str:
    if not pattern.match(value):
        raise refuse(field, f"“{text(value, field)}” is not {what}")
    return value


def address(value: str, field: str) -> str:
    """Return `value`; raise NotExpressible unless it has the form of an upstream or PHP pool address: `host[:port]`,
    `[v6][:port]` or `unix:/path`.
    """
    if value.startswith("unix:"):
        socket = path(value[5:], field)
        if not re.fullmatch(r"[A-Za-z0-9_./@+-]+", socket):
            raise refuse(field, f"“{value}”: the path of a socket can only contain letters, digits, and _ . / @ + -")
        return value
    found = HOST_PORT.match(value)
    if not found:
        raise refuse(field, f"“{text(value, field)}” is not host:port, [IPv6]:port, or unix:/path")
    if found["v6"]:
        _ip(found["v6"], field)
    if found["port"] and not 0 < int(found["port"]) < 65536:
        raise refuse(field, f"“{value}”: enter a port from 1 to 65535")
    return value


def _ip(value: str, field: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError as error:
        raise refuse(field, f"“{text(value, field)}” is not an IP address") from error


def listen_address(value: str, field: str) -> str:
    return value if value in ("", "::") else _ip(value, field)


def source(value: str, field: str) -> str:
    """Return the normalized source of an access rule: "all", an address, or a network. Raise NotExpressible for other
    values.
    """
    if value == "all":
        return value
    try:
        network = ipaddress.ip_network(value, strict=False)
    except ValueError as error:
        raise refuse(
            field, f"“{text(value, field)}” is not an IP address, a network such as 10.0.0.0/8, or all"
        ) from error
    return str(network) if "/" in value else str(network.network_address)


def port(value: int, field: str) -> int:
    if not 0 < value < 65536:
        raise refuse(field, f"{value} is not a port; enter 1 to 65535")
    return value


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@lru_cache
def _field_names(kind: Any) -> tuple[str, ...]:
    """Return the field names of a spec class; an empty tuple for other values.

    The field `snippet` (raw directives) is left out, because its own check also names the line of a control character.
    """
    if not is_dataclass(kind):
        return ()
    return tuple(field.name for field in fields(kind) if field.name != "snippet")


def no_control_characters(value: object, at: str) -> None:
    """Reject control characters in every text of a spec, even in fields that an engine ignores.

    Line feeds and tabs are left to the check of each field.
    """
    if _is_clean(value):  # fast path; the place is computed only on failure
        return
    if isinstance(value, str):
        text(value, at, lines=True)
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            no_control_characters(item, f"{at}/{number}")
    else:
        kind: Any = type(value)
        for name in _field_names(kind):
            no_control_characters(getattr(value, name), f"{at}/{name}")


def _is_clean(value: object) -> bool:
    """Return whether no text in the spec has control characters. A single search over all texts is fast."""
    left: list[Any] = [value]
    texts: list[str] = []
    while left:
        item = left.pop()
        kind: Any = type(item)
        if kind is str:
            texts.append(item)
        elif kind is tuple:
            left += item
        elif isinstance(item, str):  # for example an enum
            texts.append(item)
        elif kind not in _WORDLESS:
            left += _members(kind)(item)
    return not _CONTROL.search(" ".join(texts))


_WORDLESS = frozenset({int, bool, type(None)})


@lru_cache
def _members(kind: Any) -> Callable[[object], tuple[object, ...]]:
    names = _field_names(kind)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda item: tuple(getattr(item, name) for name in names)


def site(spec: SiteSpec) -> None:
    """Check that names are valid, and that nothing required is missing in the site.

    Required are a server block or a stream server, a server for each upstream, and a port for each PHP pool that is not
    at a socket.
    """
    no_control_characters(spec, "")
    word(spec.name, SITE_NAME, "/name", "a site name; use a-z, 0-9, and -")
    if not spec.blocks and not spec.stream_servers:
        raise refuse("/blocks", f"site {spec.name} has no server block; add a server block or a stream server")
    for number, upstream in enumerate(spec.upstreams):
        word(upstream.name, PART_NAME, f"/upstreams/{number}/name", "an upstream name; use letters, digits, _ and -")
        if not upstream.servers:
            raise refuse(f"/upstreams/{number}/servers", f"upstream {upstream.name} has no server; add a server")
    for number, pool in enumerate(spec.php_pools):
        at = f"/php_pools/{number}/address"
        if not (address(pool.address, at).startswith("unix:") or re.search(r":\d+\Z", pool.address)):
            raise refuse(at, f"“{pool.address}” has no port; enter host:9000 or unix:/path")
        word(pool.name, PART_NAME, f"/php_pools/{number}/name", "a PHP pool name; use letters, digits, _ and -")


def file_name(value: str, field: str) -> str:
    """Return `value`; raise NotExpressible unless it is a possible index file: a name, or a path below the document
    root.
    """
    text(value, field)
    if not value or ".." in value.split("/") or value != value.strip():
        raise refuse(field, f"“{value}” is not a file name; enter a name without /, for example index.html")
    return value


def mime_type(value: str, field: str) -> str:
    return word(value, MIME_TYPE, field, "a MIME type such as text/css")


def status(value: int, field: str) -> int:
    if not 200 <= value <= 599:
        raise refuse(field, f"{value} is not a response status; use 200 to 599")
    return value


def error_codes(values: tuple[int, ...], field: str, low: int = 300) -> tuple[int, ...]:
    if not values:
        raise refuse(field, "the error page has no status code; add at least one, for example 404")
    for value in values:
        if not low <= value <= 599:
            raise refuse(field, f"{value} is not a valid status code for this field; use {low} to 599")
    return values


def target(value: str, field: str) -> str:
    """Return `value`; raise NotExpressible unless it is a possible URI of an error page: a path on this site or a
    complete http(s) URL.
    """
    text(value, field)
    if not value.startswith(("/", "http://", "https://")) or " " in value:
        raise refuse(field, f"“{value}” is neither a path that starts with / nor an http(s) URL")
    return value


LOG_LEVELS = ("debug", "info", "notice", "warn", "error", "crit")


def log_level(value: str, field: str) -> str:
    if value not in LOG_LEVELS:
        raise refuse(field, f"“{value}” is not a log level; use one of {', '.join(LOG_LEVELS)}")
    return value


def pcre(value: str, field: str) -> str:
    """Return the regular expression `value`; raise NotExpressible unless all of its groups and classes are closed. An
    open group would swallow text that the rendering adds.
    """
    text(value, field)
    depth, inside, skip = 0, False, False
    for character in value:
        if skip:
            skip = False
        elif character == "\\":
            skip = True
        elif inside:
            inside = character != "]"
        elif character == "[":
            inside = True
        elif character in "()":
            depth += 1 if character == "(" else -1
        if depth < 0:
            break
    if depth or inside or skip:
        raise refuse(field, f"“{value}” is not a regular expression: a group, class, or escape is not closed")
    return value


def version_of(web_server: WebServerSpec) -> tuple[int, ...]:
    """Return the version as numbers: (1, 22, 1) for "1.22.1" or "nginx/1.22.1". For an unknown version return (), which
    compares as older than every version.
    """
    found = re.search(r"\d+(?:\.\d+)+", web_server.version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
