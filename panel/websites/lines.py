"""Conversion of list values to lines of text for forms, and back. shapes.py validates the values.

Every `*_to_text` has a `*_from_text` that restores the same value. Errors are ValidationErrors that quote the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from panel.websites.definitions import CacheTimeData, ErrorPageData, HeaderData, ListenData, ServerData, StreamRouteData
from panel.websites.shared import MARK

KEPT = "(kept)"  # placeholder of a password hash, which is never shown
ON_SUCCESS = "[2xx]"
_ListenFlag = Literal["tls", "http2", "http3", "default_server"]
_ServerNumber = Literal["weight", "max_fails", "fail_timeout_s"]
_ServerFlag = Literal["backup", "down"]
_LISTEN_WORDS: dict[str, _ListenFlag] = {
    "tls": "tls",
    "http2": "http2",
    "http3": "http3",
    "default": "default_server",
}
_LISTEN = re.compile(r"(?:(?:\[(?P<v6>[^\]]*)\]|(?P<v4>[^\s\[\]]*)):)?(?P<port>\d+)")
_ERROR_PAGE = re.compile(r"(?P<codes>\d[\d\s]*?)\s*=(?P<response>\d*)\s+(?P<uri>\S+)")
_CACHE_TIME = re.compile(r"(?:(?P<codes>\d{3}(?:\s+\d{3})*)\s*=\s*)?(?P<count>\d{1,8})(?P<unit>[smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SERVER_NUMBERS: dict[str, _ServerNumber] = {
    "weight": "weight",
    "max_fails": "max_fails",
    "fail_timeout": "fail_timeout_s",
}
_SERVER_FLAGS: dict[str, _ServerFlag] = {"backup": "backup", "down": "down"}


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, line.strip()


def _fault(number: int, line: str, right: str) -> ValidationError:
    return ValidationError(
        _("Line %(number)s, “%(line)s”: %(right)s"), params={"number": number, "line": line[:80], "right": right}
    )


T = TypeVar("T")


def _each(text: str, read: Callable[[int, str], T]) -> list[T]:
    """Return the results of `read(number, line)` for all non-empty lines.

    Raises one ValidationError with the errors of all lines.
    """
    found: list[T] = []
    faults: list[ValidationError] = []
    for number, line in _lines(text):
        try:
            found.append(read(number, line))
        except ValidationError as fault:
            faults.append(fault)
    if faults:
        raise ValidationError(faults)
    return found


# --- words ---


def words_to_text(value: list[str]) -> str:
    return " ".join(value)


def words_from_text(text: str) -> list[str]:
    return text.split()


def names_to_text(value: list[str]) -> str:
    return "\n".join(value)


def names_from_text(text: str) -> list[str]:
    """Return the server names in the text, separated by lines, spaces or commas. A regular expression (~...) needs its
    own line.
    """
    names: list[str] = []
    for _number, line in _lines(text):
        names += [line] if line.startswith("~") else line.replace(",", " ").split()
    return names


# --- listens: `443 tls http2`, `[::]:80 default`, `127.0.0.1:8080` ---


def listens_to_text(value: list[ListenData]) -> str:
    return "\n".join(_listen_to_line(item) for item in value)


def _listen_to_line(item: ListenData) -> str:
    address = str(item.get("address") or "")
    shown = f"[{address}]:" if ":" in address else f"{address}:" if address else ""
    flags = [word for word, member in _LISTEN_WORDS.items() if item.get(member)]
    return " ".join([f"{shown}{item['port']}", *flags])


def listens_from_text(text: str) -> list[ListenData]:
    return _each(text, _listen_from_line)


def _listen_from_line(number: int, line: str) -> ListenData:
    place, *flags = line.split()
    match = _LISTEN.fullmatch(place)
    if not match or not 1 <= int(match["port"]) <= 65535:
        raise _fault(number, line, _("enter a port such as 80, 127.0.0.1:8080, or [::]:443, then the options."))
    unknown = [flag for flag in flags if flag not in _LISTEN_WORDS]
    if unknown:
        known = ", ".join(_LISTEN_WORDS)
        raise _fault(
            number,
            line,
            _("“%(word)s” is not an option. Known options: %(known)s.") % {"word": unknown[0], "known": known},
        )
    address = match["v6"] or match["v4"] or ""
    item: ListenData = {"address": "" if address == "*" else address, "port": int(match["port"])}
    for word, field in _LISTEN_WORDS.items():
        item[field] = word in flags
    return item


# --- headers: `X-Frame-Options: DENY`, `[2xx] Cache-Control: no-store`, `@security` ---


def headers_to_text(value: list[HeaderData]) -> str:
    return "\n".join(_header_line(item) for item in value)


def _header_line(item: HeaderData) -> str:
    if item["name"].startswith(MARK):
        return item["name"]
    return f"{'' if item.get('always', True) else ON_SUCCESS + ' '}{item['name']}: {item['value']}"


def headers_from_text(text: str) -> list[HeaderData]:
    return _each(text, _header_from_line)


def _header_from_line(number: int, line: str) -> HeaderData:
    if line.startswith(MARK):
        return {"name": line, "value": "", "always": True}
    always = not line.startswith(ON_SUCCESS)
    name, colon, value = line.removeprefix(ON_SUCCESS).strip().partition(":")
    if not colon:
        raise _fault(number, line, _("enter Name: value."))
    return {"name": name.strip(), "value": value.strip(), "always": always}


def request_headers_to_text(value: list[HeaderData]) -> str:
    return "\n".join(f"{item['name']}: {item['value']}" for item in value)


def request_headers_from_text(text: str) -> list[HeaderData]:
    return _each(text, _request_header_from_line)


def _request_header_from_line(number: int, line: str) -> HeaderData:
    name, colon, value = line.partition(":")
    if not colon:
        raise _fault(number, line, _("enter Name: value."))
    return {"name": name.strip(), "value": value.strip()}


# --- error pages: `404 410 = /gone.html` keeps the status, `404 =200 /empty.gif` changes it ---


def error_pages_to_text(value: list[ErrorPageData]) -> str:
    return "\n".join(
        f"{' '.join(str(code) for code in item['codes'])} ={item.get('response') or ''} {item['uri']}" for item in value
    )


def error_pages_from_text(text: str) -> list[ErrorPageData]:
    return _each(text, _error_page_from_line)


def _error_page_from_line(number: int, line: str) -> ErrorPageData:
    match = _ERROR_PAGE.fullmatch(line)
    if not match:
        raise _fault(number, line, _("enter status codes, =, and the page: 404 410 = /gone.html"))
    codes = [int(code) for code in match["codes"].split()]
    response = int(match["response"]) if match["response"] else None
    return {"codes": codes, "uri": match["uri"], "response": response}


# --- rewrites: `^/old/(.*)$ /new/$1 permanent` ---


def rewrites_to_text(value: list[dict[str, str]]) -> str:
    return "\n".join(f"{item['pattern']} {item['replacement']} {item.get('flag', '')}".rstrip() for item in value)


def rewrites_from_text(text: str) -> list[dict[str, str]]:
    r"""Return the rewrites in the text, one per line. Patterns cannot contain spaces; use `\s` or `\x20`."""
    return _each(text, _rewrite_from_line)


def _rewrite_from_line(number: int, line: str) -> dict[str, str]:
    words = line.split()
    if len(words) not in (2, 3):
        right = _(
            "enter a pattern, a target, and optionally last, break, redirect, or permanent: "
            "^/old/(.*)$ /new/$1 permanent"
        )
        raise _fault(number, line, right)
    return {"pattern": words[0], "replacement": words[1], "flag": words[2] if len(words) == 3 else ""}


# --- cache times: `200 301 = 10m`; a time alone applies to 200, 301 and 302 ---


def cache_times_to_text(value: list[CacheTimeData]) -> str:
    return "\n".join(
        f"{' '.join(str(code) for code in item['codes'])} = {_duration(item['seconds'])}" for item in value
    )


def _duration(seconds: int) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def cache_times_from_text(text: str) -> list[CacheTimeData]:
    return _each(text, _cache_time_from_line)


def _cache_time_from_line(number: int, line: str) -> CacheTimeData:
    match = _CACHE_TIME.fullmatch(line)
    if not match:
        raise _fault(number, line, _("enter status codes, =, and a time, for example 200 301 = 10m or 404 = 30s"))
    codes = [int(code) for code in (match["codes"] or "").split()] or [200, 301, 302]
    return {"codes": codes, "seconds": int(match["count"]) * _UNITS[match["unit"]]}


# --- access rules: `allow 10.0.0.0/8`, `deny all` ---


def access_rules_to_text(value: list[dict[str, str]]) -> str:
    return "\n".join(f"{item['action']} {item['source']}" for item in value)


def access_rules_from_text(text: str) -> list[dict[str, str]]:
    return _each(text, _access_rule_from_line)


def _access_rule_from_line(number: int, line: str) -> dict[str, str]:
    action, _space, source = line.partition(" ")
    if action not in ("allow", "deny") or not source.strip():
        words = _(
            "enter allow or deny, then all, an address, a network, or @ with the name of an access list, for example "
            "allow 10.0.0.0/8 or allow @office"
        )
        raise _fault(number, line, words)
    return {"action": action, "source": source.strip()}


# --- pairs: `memory_limit = 256M` ---


def settings_to_text(value: dict[str, str]) -> str:
    return "\n".join(f"{name} = {setting}" for name, setting in value.items())


def settings_from_text(text: str) -> dict[str, str]:
    found: dict[str, str] = {}

    def read(number: int, line: str) -> None:
        name, equals, setting = line.partition("=")
        name = name.strip()
        if not equals or not name:
            raise _fault(number, line, _("enter name = value, for example memory_limit = 256M"))
        if name in found:
            raise _fault(number, line, _("%s appears twice.") % name)
        found[name] = setting.strip()

    _each(text, read)
    return found


# --- users: `anna: (kept)` or `anna: a new password`; the caller hashes ---


def users_to_text(value: dict[str, str]) -> str:
    return "\n".join(f"{name}: {KEPT}" for name in value)


def users_from_text(text: str) -> dict[str, str]:
    found: dict[str, str] = {}

    def read(number: int, line: str) -> None:
        name, colon, secret = line.partition(":")
        name, secret = name.strip(), secret.strip()
        if not colon or not name or not secret:
            raise _fault(number, name if colon else "…", _("enter name: password"))  # never echo a password
        if name in found:
            raise _fault(number, name, _("%s appears twice.") % name)
        found[name] = secret

    _each(text, read)
    return found


# --- an upstream's servers: `10.0.0.2:3000 weight=2 backup` ---


def servers_to_text(value: list[ServerData]) -> str:
    return "\n".join(_server_to_line(item) for item in value)


def _server_to_line(item: ServerData) -> str:
    usual: dict[_ServerNumber, int] = {"weight": 1, "max_fails": 1, "fail_timeout_s": 10}
    words = [str(item["address"])]
    for word, member in _SERVER_NUMBERS.items():
        if item.get(member, usual[member]) != usual[member]:
            words.append(f"{word}={item[member]}")
    return " ".join([*words, *(word for word, flag in _SERVER_FLAGS.items() if item.get(flag))])


def servers_from_text(text: str) -> list[ServerData]:
    return _each(text, _server_from_line)


def _server_from_line(number: int, line: str) -> ServerData:
    address, *words = line.split()
    item: ServerData = {"address": address}
    for word in words:
        name, equals, figure = word.partition("=")
        if word in _SERVER_FLAGS:
            item[_SERVER_FLAGS[word]] = True
        elif equals and name in _SERVER_NUMBERS and figure.removesuffix("s").isdecimal():
            item[_SERVER_NUMBERS[name]] = int(figure.removesuffix("s"))
        else:
            right = (
                _("“%s” is not an option. Known options: weight=2, max_fails=3, fail_timeout=30, backup, down.") % word
            )
            raise _fault(number, line, right)
    return item


# --- names and upstreams of stream servers: `mail.example.com imap` ---


def routes_to_text(value: list[StreamRouteData]) -> str:
    return "\n".join(f"{item['name']} {item['upstream']}" for item in value)


def routes_from_text(text: str) -> list[StreamRouteData]:
    return _each(text, _route_from_line)


def _route_from_line(number: int, line: str) -> StreamRouteData:
    words = line.split()
    if len(words) != 2:
        raise _fault(number, line, _("enter a name and an upstream, such as mail.example.com imap."))
    return {"name": words[0], "upstream": words[1]}
