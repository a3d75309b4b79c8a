"""Check raw RewriteRule and RewriteCond directives, for Apache and OpenLiteSpeed.

Source: https://httpd.apache.org/docs/2.4/rewrite/flags.html, hook_uri2file of mod_rewrite.c: outside of <Directory>, a
path whose first folder exists on the host is treated as a file path.
"""

from __future__ import annotations

import re

from panel.rendering import confined
from panel.rendering.apache.expressions import OTHERS_FILES, expression_problem, is_own_file
from panel.rendering.kinds import environment_name, regex
from panel.rendering.policy import Where

FLAGS = frozenset(
    {
        *("b", "bnp", "bctls", "bne", "c", "chain", "co", "cookie", "dpi", "discardpath", "e", "env", "end", "f"),
        *("forbidden", "g", "gone", "l", "last", "n", "next", "nc", "nocase", "ne", "noescape", "ns", "nosubreq"),
        *("pt", "passthrough", "qsa", "qsappend", "qsd", "qsdiscard", "qsl", "qslast", "r", "redirect", "s", "skip"),
        *("or", "ornext", "nv", "novary"),
    }
)
_FOLDERS = re.compile(
    r"/(?:bin|boot|dev|etc|home|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var|snap|data)(?:/|\Z)"
)
_ENVIRONMENT = re.compile(r"%\{ENV:([^}]*)\}", re.IGNORECASE)
_SERVERS_OWN = frozenset(
    {"HTTPS", "REDIRECT_STATUS", "REDIRECT_URL", "REDIRECT_HTTPS", "SSL", "HTTP_AUTHORIZATION", "BASE"}
)


def rewrite_rule(args: tuple[str, ...], where: Where) -> str:
    if not 2 <= len(args) <= 3:
        return "needs a pattern, a replacement, and optionally flags, for example: ^/old/(.*)$ /new/$1 [L]"
    flags = _flags(args[2]) if args[2:] else {}
    message = regex(args[0].lstrip("!"), where) or _flags_problem(flags, where) or _environment(args[1], where)
    if message or args[1] == "-" or {"f", "forbidden", "g", "gone"} & flags.keys():
        return message
    if {"r", "redirect"} & flags.keys():
        return ""
    return _path_problem(args, flags, where)


def _path_problem(args: tuple[str, ...], flags: dict[str, str], where: Where) -> str:
    """Return an error message unless the path to which a RewriteRule rewrites is allowed; otherwise "".

    In a <Directory>, Apache treats the new path as a URL and normalizes it again. Elsewhere, the first folder of the
    new path must be constant, because Apache could treat the path as a file path of the host.
    """
    replacement = args[1]
    if re.match(r"[a-z][a-z0-9+.-]*:", replacement, re.IGNORECASE):
        if re.search(r"[$%]", replacement.partition("?")[0]):
            return (
                f"Apache treats “{replacement}” as a path if the variable contains the site's own name; add the flag R"
            )
        return ""
    path = replacement.partition("?")[0]
    passes = bool({"pt", "passthrough"} & flags.keys())
    if _is_per_directory(where) and not passes:
        bare = re.sub(r"\A%\{ENV:\w+\}|[$%][1-9]", "x", path)
        return confined.uri_problem(bare if bare.startswith("/") else f"/{bare}")
    if _FOLDERS.match(path) and not passes:
        return f"Apache can treat “{replacement}” as a folder of the host; add the flag PT"
    if re.match(r"/?[^/?]*[$%]", path) or re.search(r"%[0-9{]", path):
        return f"“{replacement}” contains a variable in its path: {confined.LEADS}"
    return confined.rewrite_problem(args[0], path if path.startswith("/") else f"/{path}")


def _is_per_directory(where: Where) -> bool:
    around = {"directory", "files", "filesmatch", "location", "locationmatch", "if", "elseif", "else"}
    return where.place == "location" or not around.isdisjoint(where.parents)


def _flags(text: str) -> dict[str, str]:
    found = (flag.strip().partition("=") for flag in text.strip("[]").split(","))
    return {name.strip().lower(): value for name, _, value in found}


def _flags_problem(flags: dict[str, str], where: Where) -> str:
    for name, value in flags.items():
        if name in ("p", "proxy"):
            return "sites cannot use the flag P; use a location with an upstream"
        if name not in FLAGS:
            return f"sites cannot use the flag {name}; remove it"
        if name in ("e", "env") and (message := environment_name(value.partition(":")[0], where)):
            return message
    return ""


def _environment(value: str, where: Where) -> str:
    for found in _ENVIRONMENT.finditer(value):
        if found[1].upper() not in where.names | _SERVERS_OWN:
            return (
                f"{found[1]} can be a secret of the web server's environment; set this variable in the same raw "
                "directives first"
            )
    return ""


def rewrite_cond(args: tuple[str, ...], where: Where) -> str:
    if not 2 <= len(args) <= 3:
        return "needs a text, a pattern, and optionally flags, for example: %{REQUEST_URI} ^/old/ [NC]"
    text, pattern = args[0], args[1]
    if text.lower() == "expr":
        return expression_problem(pattern)
    if re.fullmatch(r"!?-[dfFhlLsUx]", pattern):
        return "" if is_own_file(_simple(text)) else OTHERS_FILES
    if pattern.lstrip("!")[:1] in ("=", "<", ">", "-"):
        return ""
    return regex(pattern.lstrip("!"), where)


def _simple(text: str) -> str:
    """Return the path in a file test, without a slash before a variable: `%{…}` for `/%{…}`, because the variable
    already is an absolute path.
    """
    return text.removeprefix("/") if text.startswith("/%{") else text
