"""Validators of list values: JSON with the fields of the dataclasses in panel/rendering/spec.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from panel.rendering.caching import COOKIE
from panel.websites import shared, validators

# PHP settings for limits and times, which never change the code that runs or the files that are opened.
PHP_SETTINGS = {
    "date.timezone",
    "default_charset",
    "default_socket_timeout",
    "display_errors",
    "error_reporting",
    "file_uploads",
    "gc_maxlifetime",
    "html_errors",
    "log_errors",
    "max_execution_time",
    "max_file_uploads",
    "max_input_time",
    "max_input_vars",
    "memory_limit",
    "output_buffering",
    "post_max_size",
    "precision",
    "realpath_cache_size",
    "realpath_cache_ttl",
    "session.cookie_httponly",
    "session.cookie_lifetime",
    "session.cookie_samesite",
    "session.cookie_secure",
    "session.gc_maxlifetime",
    "session.name",
    "short_open_tag",
    "upload_max_filesize",
    "zlib.output_compression",
}
BCRYPT = re.compile(r"\$2[aby]\$(?:0[4-9]|1[0-9])\$[./A-Za-z0-9]{53}")
MEDIA_TYPE = re.compile(r"(?:\*|[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/(?:\*|[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*))")
REWRITE_FLAGS = ("", "last", "break", "redirect", "permanent")
Check = Callable[[str], None]
MAX_SOURCES = 500  # of an access list; each becomes a line in every location that uses the list
MAX_HEADERS = 50  # of a header set; each becomes a line in every block or location that uses the set


def _list_of(value: Any, kind: type, example: str) -> list[Any]:
    if not isinstance(value, list) or not all(type(item) is kind for item in value):
        raise ValidationError(_("Enter a list such as %(example)s."), params={"example": example}, code="shape")
    return value


def _members(item: dict[str, object], required: set[str], optional: set[str], example: str) -> None:
    unknown, missing = set(item) - required - optional, required - set(item)
    if unknown or missing:
        raise ValidationError(
            _("Each entry needs the fields of %(example)s; %(names)s is missing or unknown."),
            params={"example": example, "names": ", ".join(sorted(unknown | missing))},
            code="shape",
        )


def _text(item: dict[str, object], name: str, check: Check) -> None:
    value = item[name]
    if not isinstance(value, str):
        raise ValidationError(_("“%(name)s” must be text."), params={"name": name}, code="shape")
    check(value)


def _status(value: Any, low: int) -> None:
    if type(value) is not int or not low <= value <= 599:
        raise ValidationError(
            _("%(value)s is not a status code. Enter a number from %(low)s to 599."),
            params={"value": value, "low": low},
        )


def _unique(values: list[str]) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise ValidationError(_("%(names)s appears twice."), params={"names": ", ".join(twice)}, code="twice")


def _check_index(name: str) -> None:
    validators.validate_line(name)
    if not name or " " in name or "$" in name or ".." in name.split("/"):
        raise ValidationError(
            _("“%(name)s” is not a file name. Enter a name such as index.html or index.php."), params={"name": name}
        )


def validate_index(value: Any) -> None:
    names = _list_of(value, str, '["index.html", "index.php"]')
    for name in names:
        _check_index(name)
    _unique(names)


def _check_try_file(entry: str, is_last: bool) -> None:
    validators.validate_line(entry)
    if re.fullmatch(r"=[1-5][0-9][0-9]", entry):
        if not is_last:
            raise ValidationError(_("%(entry)s must be the last entry."), params={"entry": entry})
        return
    if " " in entry or not entry.startswith(("/", "$")) or ".." in entry.split("/"):
        raise ValidationError(
            _("“%(entry)s” is not a valid entry. Use $uri, $uri/, /index.php?$args, or =404 (last)."),
            params={"entry": entry},
        )


def validate_try_files(value: Any) -> None:
    entries = _list_of(value, str, '["$uri", "$uri/", "=404"]')
    if len(entries) == 1:
        raise ValidationError(_("Enter at least two entries; the last entry is the fallback, for example =404"))
    for position, entry in enumerate(entries):
        _check_try_file(entry, position == len(entries) - 1)


def _check_page_uri(value: str) -> None:
    if value.startswith(("http://", "https://")):
        validators.validate_line(value)
    else:
        validators.validate_uri_path(value)


def validate_error_pages(value: Any) -> None:
    example = '[{"codes": [404], "uri": "/404.html", "response": null}]'
    for item in _list_of(value, dict, example):
        _members(item, {"codes", "uri"}, {"response"}, example)
        for code in _list_of(item["codes"], int, "[404]"):
            _status(code, 300)
        if not item["codes"]:
            raise ValidationError(_("Enter at least one status code, for example 404."))
        if item.get("response") is not None:
            _status(item["response"], 200)
        _text(item, "uri", _check_page_uri)
    codes = [str(code) for item in value for code in item["codes"]]
    _unique(codes)


_HEADERS = '[{"name": "X-Frame-Options", "value": "DENY", "always": true}]'


def validate_headers(value: Any) -> None:
    """Validate response headers. An item with the name `@set` and no value means the headers of a header set."""
    names = [item["name"] for item in _list_of(value, dict, _HEADERS) if _is_set(item)]
    for item in value:
        if not _is_set(item):
            _header(item)
            continue
        _members(item, {"name", "value"}, {"always"}, _HEADERS)
        validators.validate_slug(item["name"][1:])
        if item["value"] != "" or item.get("always", True) is not True:
            raise ValidationError(_("“%(name)s” is a header set. Remove its value."), params={"name": item["name"]})
    _unique(names)


def _is_set(item: dict[str, object]) -> bool:
    name = item.get("name")
    return isinstance(name, str) and name.startswith(shared.MARK)


def validate_request_headers(value: Any) -> None:
    for item in _list_of(value, dict, _HEADERS):
        _header(item)


def validate_header_set(value: Any) -> None:
    """Validate the headers of a header set: at least one header, no duplicates, and no other header set."""
    validate_request_headers(value)
    if not value:
        raise ValidationError(_("Enter at least one header."), code="shape")
    if len(value) > MAX_HEADERS:
        raise ValidationError(_("Enter at most %d headers.") % MAX_HEADERS, code="shape")
    _unique([item["name"].lower() for item in value])


def _header(item: dict[str, object]) -> None:
    _members(item, {"name", "value"}, {"always"}, _HEADERS)
    _text(item, "name", validators.validate_header_name)
    _text(item, "value", validators.validate_header_value)
    if not isinstance(item.get("always", True), bool):
        raise ValidationError(_("“always” must be true or false."), code="shape")


def validate_rewrites(value: Any) -> None:
    example = '[{"pattern": "^/old/(.*)$", "replacement": "/new/$1", "flag": "last"}]'
    for item in _list_of(value, dict, example):
        _members(item, {"pattern", "replacement"}, {"flag"}, example)
        _text(item, "pattern", _check_rewritten)
        _text(item, "replacement", _check_replacement)
        if item.get("flag", "") not in REWRITE_FLAGS:
            raise ValidationError(
                _("“flag” must be one of %(flags)s, or empty."),
                params={"flags": ", ".join(filter(None, REWRITE_FLAGS))},
            )


def _check_rewritten(value: str) -> None:
    validators.validate_regex(value)
    if " " in value:
        raise ValidationError(_("A rewrite pattern cannot contain spaces. Use \\x20 or \\s."))


def _check_replacement(value: str) -> None:
    validators.validate_line(value)
    if not value.startswith(("/", "http://", "https://", "$")) or " " in value:
        raise ValidationError(
            _("“%(value)s” is not a rewrite target. Enter a target such as /new/$1 or https://www.example.com/$1."),
            params={"value": value},
        )


def validate_cache_times(value: Any) -> None:
    example = '[{"codes": [200, 301], "seconds": 600}]'
    for item in _list_of(value, dict, example):
        _members(item, {"codes", "seconds"}, set(), example)
        for code in _list_of(item["codes"], int, "[200, 301]"):
            _status(code, 200)
        if not item["codes"]:
            raise ValidationError(_("Enter at least one status code, for example 200."))
        if type(item["seconds"]) is not int or not 1 <= item["seconds"] <= 31536000:
            raise ValidationError(_("“seconds” must be a number from 1 to 31536000 (one year)."), code="shape")
    _unique([str(code) for item in value for code in item["codes"]])


def validate_cookies(value: Any) -> None:
    names = _list_of(value, str, '["session", "wordpress_logged_in_*"]')
    for name in names:
        if not COOKIE.match(name):
            raise ValidationError(
                _("“%(name)s” is not a cookie name. Use letters, digits, and _ . ~ -, with an optional * at the end."),
                params={"name": name},
            )
    _unique(names)


def validate_gzip_types(value: Any) -> None:
    types = _list_of(value, str, '["text/css", "application/json"]')
    for entry in types:
        if not MEDIA_TYPE.fullmatch(entry):
            raise ValidationError(
                _("%(value)s is not a media type. Enter a type such as text/css."), params={"value": entry}
            )
    _unique(types)


def validate_access_rules(value: Any) -> None:
    example = '[{"action": "allow", "source": "10.0.0.0/8"}, {"action": "deny", "source": "all"}]'
    for item in _list_of(value, dict, example):
        _members(item, {"action", "source"}, set(), example)
        if item["action"] not in ("allow", "deny"):
            raise ValidationError(_("“action” must be allow or deny."), code="shape")
        _text(item, "source", validators.validate_rule_source)


def validate_access_list(value: Any) -> None:
    """Validate the addresses and networks of an access list: at least one, and no duplicates."""
    validate_sources(value)
    if not value:
        raise ValidationError(_("Enter at least one address or network."), code="shape")
    if len(value) > MAX_SOURCES:
        raise ValidationError(_("Enter at most %d addresses and networks.") % MAX_SOURCES, code="shape")
    _unique(value)


def validate_directive_set(value: str) -> None:
    """Validate the text of a directive set, which cannot use another directive set."""
    validators.validate_text(value)
    if not value.strip():
        raise ValidationError(_("Enter at least one directive."))
    if names := sorted(shared.directive_sets_named(value)):
        raise ValidationError(
            _("A directive set cannot contain another directive set. Remove the line @%(name)s."),
            params={"name": names[0]},
        )


def validate_sources(value: Any) -> None:
    """Validate a list of IP addresses and networks."""
    for item in _list_of(value, str, '["192.0.2.1", "10.0.0.0/8"]'):
        validators.validate_access_source(item)
        if item == "all":
            raise ValidationError(_("Enter addresses or networks, not “all”."), code="shape")


def _dictionary(value: Any, example: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValidationError(_("Enter names and values such as %(example)s."), params={"example": example})
    return value


def validate_basic_auth_users(value: Any) -> None:
    for name, hashed in _dictionary(value, '{"anna": "$2y$12$..."}').items():
        validators.validate_line(name)
        if not name or ":" in name or not name.isascii() or len(name) > 64:
            raise ValidationError(
                _("“%(name)s” is not a valid user name. Use at most 64 ASCII characters without a colon."),
                params={"name": name},
            )
        if not BCRYPT.fullmatch(hashed):
            raise ValidationError(
                _("The password of %(name)s is not a bcrypt hash ($2y$12$...). Create a hash with htpasswd -nB."),
                params={"name": name},
            )


def validate_php_settings(value: Any) -> None:
    for name, setting in _dictionary(value, '{"memory_limit": "256M"}').items():
        if name not in PHP_SETTINGS:
            raise ValidationError(
                _("%(name)s cannot be set per site. Allowed settings: %(known)s."),
                params={"name": name, "known": ", ".join(sorted(PHP_SETTINGS))},
            )
        validators.validate_line(setting)
        if not re.fullmatch(r"[A-Za-z0-9_./&~|^ +-]{1,100}", setting):
            raise ValidationError(
                _("“%(value)s” is not a valid value for %(name)s."), params={"value": setting, "name": name}
            )
