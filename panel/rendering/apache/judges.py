"""Checks of arguments of raw Apache directives: expressions, rewriting, logs, access, handlers.

Each check returns an error message, or "" if the arguments are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from panel.rendering import confined
from panel.rendering.apache.expressions import expression_problem, string_problem
from panel.rendering.apache.ruling import rewrite_cond, rewrite_rule
from panel.rendering.kinds import KINDS, environment_name, regex
from panel.rendering.policy import Judge, Kind, Where
from panel.rendering.readers import Read

Args = tuple[str, ...]
FILTERS = frozenset(
    {
        *(
            "none",
            "deflate",
            "inflate",
            "brotli_compress",
            "rate_limit",
            "substitute",
            "buffer",
            "charset",
            "proxy-html",
        ),
        *("xml2enc", "data", "request_body", "cache"),
    }
)
OPTIONS = frozenset({"none", "indexes", "multiviews", "followsymlinks", "symlinksifownermatch"})
_GIVEN_UP = frozenset({"execcgi", "includes", "includesnoexec", "all", "indexes", "multiviews", "followsymlinks"})
_REQUIRED = frozenset(
    {"all", "ip", "host", "forward-dns", "local", "env", "method", "user", "group", "valid-user", "expr"}
)
_CONF_COMMANDS = frozenset(
    {
        *("options", "ciphersuites", "curves", "groups", "signaturealgorithms", "clientsignaturealgorithms"),
        *("minprotocol", "maxprotocol", "cipherstring", "numtickets"),
    }
)
_POOL_OPTION = re.compile(
    r"(?:(?:timeout|connectiontimeout|retry|ttl|max|min|smax|acquire|iobuffersize|receivebuffersize)=\d+(?:ms)?|"
    r"(?:keepalive|disablereuse|enablereuse|flushpackets)=(?:on|off|auto)|upgrade=websocket|nocanon)",
    re.IGNORECASE,
)
_PHP = re.compile(
    r"(memory_limit|upload_max_filesize|max_file_uploads|file_uploads|post_max_size|max_execution_time|max_input_time|"
    r"max_input_vars|max_input_nesting_level|display_errors|display_startup_errors|log_errors|error_reporting|"
    r"html_errors|date\.timezone|default_charset|default_socket_timeout|short_open_tag|output_buffering|"
    r"zlib\.output_compression|register_globals|magic_quotes_\w+|session\.(gc_\w+|cookie_\w+|use_\w+|name|auto_start|"
    r"cache_\w+|hash_\w+|sid_\w+)|mbstring\.\w+|realpath_cache_\w+|opcache\.(enable|revalidate_freq|validate_timestamps)"
    r"|pcre\.\w+|arg_separator\.\w+|expose_php|ignore_user_abort|precision|serialize_precision|allow_url_fopen)\Z"
)


def _header(args: Args, _where: Where) -> str:
    if len(args) < 2:
        return "needs an action, a header, and a value, for example: set X-Frame-Options DENY"
    return next(filter(None, (expression_problem(value[5:]) for value in args if value.startswith("expr="))), "")


def _require(args: Args, _where: Where) -> str:
    words = args[1:] if args[:1] and args[0].lower() == "not" else args
    if not words or words[0].lower() not in _REQUIRED:
        return f"needs one of these words first: {', '.join(sorted(_REQUIRED))}"
    return expression_problem(" ".join(words[1:])) if words[0].lower() == "expr" else string_problem(" ".join(words))


def _error_document(args: Args, _where: Where) -> str:
    if len(args) < 2 or not args[0].isdigit():
        return "needs a status, then a path, a URL, or a text, for example: 404 /gone.html"
    return confined.uri_problem(args[1]) if args[1].startswith("/") else string_problem(" ".join(args[1:]))


def _redirect(args: Args, _where: Where) -> str:
    return next(filter(None, map(string_problem, args)), "")


def _alias(args: Args, where: Where) -> str:
    if not 1 <= len(args) <= 2:
        return "needs a path of the site and a folder, for example: /images /srv/www/shop/images"
    first = confined.uri_problem(args[0]) if len(args) == 2 else ""
    return first or KINDS["path"](args[-1], where)


def _custom_log(args: Args, where: Where) -> str:
    if not args:
        return "needs the path of a log file"
    for value in args[1:]:
        if value.startswith("expr=") and (message := expression_problem(value[5:])):
            return message
    return _log(args[0], where)


def _log(value: str, where: Where) -> str:
    if value.startswith("|"):
        return "the log would go to a command that runs as root; enter the path of a log file"
    if value.startswith("syslog"):
        return "sites cannot log to syslog; enter the path of a log file, and let the host's syslog read that file"
    return KINDS["path"](value, where)


def _setenvif(args: Args, where: Where) -> str:
    return regex(args[1], where) or _variables(args[2:], where) if len(args) > 2 else "has too few arguments"


def _browser_match(args: Args, where: Where) -> str:
    return regex(args[0], where) or _variables(args[1:], where) if len(args) > 1 else "has too few arguments"


def _setenvif_expr(args: Args, where: Where) -> str:
    return expression_problem(args[0]) or _variables(args[1:], where) if len(args) > 1 else "has too few arguments"


def _variables(args: Args, where: Where) -> str:
    return next(filter(None, (environment_name(value, where) for value in args)), "")


def _options(args: Args, _where: Where) -> str:
    for value in map(str.lower, args):
        if value.lstrip("+-") not in (OPTIONS if value[0] != "-" else OPTIONS | _GIVEN_UP):
            return f"the option {value} is unknown or lets files in the site's folders run commands; remove it"
    return "" if args else "needs at least one option, for example: -Indexes"


def _substitute(args: Args, _where: Where) -> str:
    return (
        ""
        if len(args) == 1 and re.match(r"s(.).*\1.*\1[infq]*\Z", args[0], re.DOTALL)
        else "needs a substitution such as s/old/new/i"
    )


def _authorities(args: Args, where: Where) -> str:
    """Check that the arguments of `Allow` or `Deny` are `from` and addresses, networks, host names or environment
    variables.
    """
    if args[:1] and args[0].lower() == "from" and len(args) > 1:
        names = [value for value in args[1:] if not re.fullmatch(r"[A-Za-z0-9.:/*_-]+|env=!?\w+", value)]
        return f"needs an IP address, a network, or a host name, not “{names[0]}”" if names else ""
    return "needs the word from and at least one address, for example: from 10.0.0.0/8"


def _folder(args: Args, where: Where) -> str:
    if len(args) != 1 or re.search(r"[*?\[\]~]", args[0]):
        return "needs exactly one folder, without wildcards"
    return KINDS["folder_around"](args[0], where)


def _pattern(args: Args, where: Where) -> str:
    """Check that a section such as <Location> has one argument, or `~` and a valid regular expression."""
    if args[:1] == ("~",) and len(args) == 2:
        return regex(args[1], where)
    return "" if len(args) == 1 else "needs exactly one name, or ~ and a regular expression"


def _condition(args: Args, _where: Where) -> str:
    return expression_problem(" ".join(args))


def _conf_command(args: Args, _where: Where) -> str:
    if len(args) != 2 or args[0].lower() not in _CONF_COMMANDS:
        return f"needs a command and a value; use one of these commands: {', '.join(sorted(_CONF_COMMANDS))}"
    return ""


def _handler(value: str, where: Where) -> str:
    if value.lower() in ("none", "default-handler"):
        return ""
    if value.startswith("proxy:"):
        return KINDS["target"](value.removeprefix("proxy:"), where)
    return (
        f"the handler “{value}” passes requests to a program or shows other sites' requests; use the site's PHP pools"
    )


def _filters(value: str, _where: Where) -> str:
    unknown = [name for name in value.lower().split(";") if name not in FILTERS]
    return f"sites cannot use the filter “{unknown[0]}”; use one of {', '.join(sorted(FILTERS))}" if unknown else ""


def _type(value: str, where: Where) -> str:
    """Check that a media type is valid, and is none that makes Apache run files as programs."""
    lower = value.lower()
    if lower.startswith(("application/x-httpd", "text/x-server-parsed")) or "proxy:" in lower:
        return f"the type “{value}” makes Apache run files as programs; use the site's PHP pool"
    return "" if lower == "none" else KINDS["mime"](value.partition(";")[0], where)


def _php_name(value: str, _where: Where) -> str:
    if _PHP.match(value.lower()):
        return ""
    return f"the PHP setting {value} can make PHP run other code or read other files; use the site's PHP pool"


def _override(value: str, _where: Where) -> str:
    return (
        ""
        if value.lower() == "none"
        else ("files in the site's folders could change the web server's configuration; use None")
    )


def _rewrite_option(value: str, _where: Where) -> str:
    known = {
        "inherit",
        "inheritbefore",
        "inheritdown",
        "inheritdownbefore",
        "ignoreinherit",
        "allownoslash",
        "mergebase",
    }
    return (
        ""
        if value.lower() in known
        else (f"sites cannot use the option “{value}”; use one of {', '.join(sorted(known))}")
    )


def _auth_provider(value: str, _where: Where) -> str:
    return (
        "" if value.lower() in ("file", "anon") else f"the provider “{value}” does not read users from a file; use file"
    )


def _proxy_pass(args: Args, where: Where) -> str:
    """Check the arguments of ProxyPass: `[path] target [key=value …]`.

    The path is left out in a location. The target `!` disables proxying.
    """
    values = list(args)
    if values and values[0].startswith("/") and (message := confined.uri_problem(values.pop(0))):
        return message
    if not values:
        return (
            "needs the URL of a server; outside of locations, a path before it, for example /app http://127.0.0.1:3000"
        )
    wrong = [value for value in values[1:] if not _POOL_OPTION.fullmatch(value)]
    if wrong:
        return f"“{wrong[0]}” is not an option; enter options such as timeout=60 after the server"
    return "" if values[0] == "!" else KINDS["target"](values[0], where)


def _pass(value: str, where: Where) -> str:
    """Check only the expressions in the URL of a ProxyPassReverse. Every server is allowed, because Apache compares
    this URL with response headers and opens no connection to it.
    """
    return string_problem(value)


def names(items: tuple[Read, ...]) -> frozenset[str]:
    """Return the upper-case names of the environment variables that raw directives and the directives in their blocks
    set: RewriteRule with [E=…], SetEnv, SetEnvIf and BrowserMatch.
    """
    return frozenset(_names(items))


def _names(items: tuple[Read, ...]) -> Iterator[str]:
    for item in items:
        for value in item.args:
            yield from (name.upper() for name in re.findall(r"\bE(?:nv)?=!?([A-Za-z0-9_]+)", value, re.IGNORECASE))
        if item.name.lower().startswith(("setenv", "browsermatch")):
            yield from (value.partition("=")[0].upper() for value in item.args)
        yield from _names(item.body or ())


KINDS_OF_APACHE: dict[str, Kind] = {
    **KINDS,
    "flag": lambda value, _where: "" if value.lower() in ("on", "off") else f"needs on or off, not “{value}”",
    "log": _log,
    "handler": _handler,
    "filters": _filters,
    "type": _type,
    "php_name": _php_name,
    "override": _override,
    "expr_string": lambda value, _where: string_problem(value),
    "expr": lambda value, _where: expression_problem(value),
    "reverse": _pass,
    "rewrite_option": _rewrite_option,
    "auth_provider": _auth_provider,
}
JUDGES: dict[str, Judge] = {
    "proxy_pass": _proxy_pass,
    "header": _header,
    "require": _require,
    "error_document": _error_document,
    "redirect": _redirect,
    "alias": _alias,
    "custom_log": _custom_log,
    "setenvif": _setenvif,
    "setenvif_expr": _setenvif_expr,
    "browser_match": _browser_match,
    "options": _options,
    "substitute": _substitute,
    "from": _authorities,
    "folder": _folder,
    "pattern": _pattern,
    "condition": _condition,
    "conf_command": _conf_command,
    "rewrite_rule": rewrite_rule,
    "rewrite_cond": rewrite_cond,
}
