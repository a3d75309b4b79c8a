"""Checks of arguments of raw nginx directives: conditions, rewrites, logs, zones.

Each check returns an error message, or "" if the arguments are allowed.
"""

from __future__ import annotations

import re

from panel.rendering import confined
from panel.rendering.kinds import KINDS, regex
from panel.rendering.policy import Judge, Kind, Where

Args = tuple[str, ...]
_STATE = re.compile(r"!?-[fdex]\Z")
_OWN_FILE = re.compile(r"\$(request_filename|document_root[A-Za-z0-9._/-]*|document_root\$(uri|document_uri))\Z")
_CONF_COMMANDS = {
    *("options", "ciphersuites", "curves", "groups", "signaturealgorithms", "clientsignaturealgorithms"),
    *("minprotocol", "maxprotocol", "cipherstring", "numtickets"),
}


def _none(args: Args, _where: Where) -> str:
    return "has arguments, but this directive takes none; remove them" if args else ""


def _location(args: Args, where: Where) -> str:
    """Check the arguments of `location`: `[= | ~ | ~* | ^~] pattern` or `@name`."""
    if args[:1] in (("~",), ("~*",)) and len(args) == 2:
        return regex(args[1], where)
    return "" if 1 <= len(args) <= 2 else "needs one path or regular expression, for example: ~ \\.php$"


def _try_files(args: Args, _where: Where) -> str:
    """Check try_files of raw directives: `$uri` is allowed at the start of an item; all other text must be constant."""
    if len(args) < 2:
        return "needs at least a file and a fallback, for example: $uri =404"
    for value in args:
        bare = re.sub(r"\A\$(uri|document_uri)(?=/|\.|\Z)", "/u", value)
        if not re.fullmatch(r"=\d{3}", value) and (message := confined.uri_problem(bare)):
            return message if bare == value else f"“{value}” is outside this site's files"
    return ""


def _error_page(args: Args, where: Where) -> str:
    codes = [value for value in args[:-1] if not re.fullmatch(r"=?\d{3}|=", value)]
    if codes or len(args) < 2:
        return "needs status codes and a path, for example: 404 /gone.html"
    return KINDS["location"](args[-1], where)


def _if(args: Args, where: Where) -> str:
    """Check that the condition of an `if` has an allowed form: `$x`, `$x = y`, `$x ~ regex`, or a test of the requested
    file.
    """
    words = list(args)
    if not words or not words[0].startswith("(") or not words[-1].endswith(")"):
        return "needs a condition in parentheses, for example: ($request_method = POST)"
    words[0] = words[0][1:]
    words[-1] = words[-1][:-1]
    words = [word for word in words if word]
    if words and _STATE.match(words[0]):
        if len(words) == 2 and _OWN_FILE.match(words[1]) and ".." not in words[1]:
            return ""
        return "the condition tests a file that a visitor can choose; test $request_filename instead"
    if not words or not re.fullmatch(r"\$\{?\w+\}?", words[0]):
        return "needs a condition that starts with a variable, for example: ($request_method = POST)"
    if len(words) == 1:
        return ""
    if len(words) != 3 or words[1] not in ("=", "!=", "~", "~*", "!~", "!~*"):
        return "needs a condition such as ($request_method = POST)"
    return regex(words[2], where) if "~" in words[1] else ""


def _return(args: Args, _where: Where) -> str:
    return (
        ""
        if 1 <= len(args) <= 2
        else ("needs a status, and optionally a text or URL, for example: 301 https://www.example.com")
    )


def _rewrite(args: Args, where: Where) -> str:
    """Check a rewrite: a redirect can have any target; in a new path of this site, captures must be whole segments of
    the original path.
    """
    if not 2 <= len(args) <= 3 or (args[2:] and args[2] not in ("last", "break", "redirect", "permanent")):
        return "needs a regular expression, a replacement, and optionally last, break, redirect, or permanent"
    if message := regex(args[0], where):
        return message
    if args[2:] and args[2] in ("redirect", "permanent"):
        return ""
    return "" if re.match(r"https?://|\$scheme://", args[1]) else confined.rewrite_problem(args[0], args[1])


def _access_log(args: Args, where: Where) -> str:
    if args == ("off",):
        return ""
    if not args:
        return "needs the path of a log file, or off"
    for value in args[1:]:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*|(buffer|flush|gzip)=\w+|if=\$\w+|gzip", value):
            return f"needs a format's name, buffer=, flush=, gzip=, or if=$name, not “{value}”"
    return _log(args[0], where)


def _log(value: str, where: Where) -> str:
    """Check the path of a log file. Other targets (syslog:, memory:, stderr) are refused, because the panel could not
    read such logs.
    """
    if value.startswith(("syslog:", "memory:")) or value == "stderr":
        return (
            f"the log “{value}” is not a file; enter the path of a log file, and let the host's syslog read that file"
        )
    return KINDS["path"](value, where)


def _limit_req(args: Args, where: Where) -> str:
    for value in args:
        if value.startswith("zone="):
            if message := _zone(value[5:], where):
                return message
        elif not re.fullmatch(r"burst=\d+|nodelay|delay=\d+", value):
            return f"needs zone=, burst=, delay=, or nodelay, not “{value}”"
    return ""


def _zone(value: str, _where: Where) -> str:
    """Check the name of a shared memory zone. The names of the panel's own zones are refused."""
    if value == "off":
        return ""
    if value.lower().startswith("paddock_") or not re.fullmatch(r"[A-Za-z_][\w.:-]*", value):
        return (
            f"the zone “{value}” belongs to Paddock or is not valid; use the rate limit or the response caching "
            "of the location"
        )
    return ""


def _conf_command(args: Args, where: Where) -> str:
    """Check the arguments of ssl_conf_command: only OpenSSL commands that name no file are allowed."""
    if len(args) != 2 or args[0].lower() not in _CONF_COMMANDS:
        return f"needs a command and a value; use one of these commands: {', '.join(sorted(_CONF_COMMANDS))}"
    return KINDS["ciphers"](args[1], where)


def _variable(value: str, _where: Where) -> str:
    if not re.fullmatch(r"\$[A-Za-z_]\w*", value) or value.lower().startswith("$paddock_"):
        return f"needs the name of a variable such as $name, not “{value}”"
    return ""


def _uri_or_off(value: str, _where: Where) -> str:
    return "" if value == "off" else confined.uri_problem(value)


def _resolver(value: str, where: Where) -> str:
    if re.fullmatch(r"(valid=\w+|ipv[46]=(on|off)|status_zone=\w+)", value):
        return ""
    bare = re.sub(r"(?<=[\]\d]):\d+\Z", "", value) if value.count(":") < 2 or value.startswith("[") else value
    return KINDS["address"](bare.strip("[]"), where)


def _matches(pattern: str, meaning: str) -> Kind:
    return lambda value, _where: "" if re.fullmatch(pattern, value) else f"needs {meaning}, not “{value}”"


KINDS_OF_NGINX: dict[str, Kind] = {
    **KINDS,
    "log": _log,
    "zone": _zone,
    "variable": _variable,
    "uri_or_off": _uri_or_off,
    "resolver": _resolver,
    "flag_or_static": _matches(r"on|off|always", "on, off, or always"),
    "number_or_size": _matches(r"\d+[kKmMgG]?|\$\w+", "a number or size"),
    "mime_row": KINDS["mime"],
}
JUDGES: dict[str, Judge] = {
    "none": _none,
    "location": _location,
    "try_files": _try_files,
    "error_page": _error_page,
    "if": _if,
    "return": _return,
    "rewrite": _rewrite,
    "access_log": _access_log,
    "limit_req": _limit_req,
    "conf_command": _conf_command,
}
