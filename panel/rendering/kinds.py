"""Argument kinds of raw directives that all engines share, each with its check.

A check returns an error message, "" if the argument is allowed.
"""

from __future__ import annotations

import ipaddress
import re

from panel.rendering import checks, confined
from panel.rendering.errors import NotExpressible
from panel.rendering.policy import Kind, Where

_LOOKS = {
    "flag": (r"on|off", "on or off"),
    "number": (r"-?\d+(\.\d+)?", "a number"),
    "size": (r"\d+[kKmMgG]?", "a size such as 8k"),
    "time": (r"(\d+(ms|[smhdwMy])?\s*)+", "a time such as 30s"),
    "word": (r"[A-Za-z0-9_.+*:=,/-]+", "a word"),
    "name": (r"[A-Za-z_][A-Za-z0-9_-]*", "a name"),
    "header": (r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "the name of a header"),
    "ciphers": (r"[A-Za-z0-9_:+!@=.,-]+|\[[^\]$]*\][A-Za-z0-9_:+!-]*", "a list of ciphers"),
    "mime": (r"\*|[A-Za-z0-9.+-]+/[A-Za-z0-9.+*-]+", "a MIME type such as text/css"),
}


def _look(pattern: str, meaning: str) -> Kind:
    compiled = re.compile(rf"(?:{pattern})\Z", re.IGNORECASE)
    return lambda value, _where: "" if compiled.match(value) else f"needs {meaning}, not “{value}”"


def text(_value: str, _where: Where) -> str:
    """Accept any text; control characters are rejected earlier."""
    return ""


def path(value: str, where: Where) -> str:
    where.note("path", value)
    return folder_around(value, where)


def folder_around(value: str, where: Where) -> str:
    """Check a path on which a block depends, such as that of Apache's <IfFile>: it must be below a site folder or the
    log folder. The web server serves no files from this path.
    """
    web_server = where.web_server
    return confined.path_problem(value, (*web_server.site_roots, web_server.log_dir))


def password_path(value: str, where: Where) -> str:
    """Check the path of a password file: it must be below a site folder, the log folder, or the server's configuration
    folder.

    The configuration folder is allowed because the file's contents are only compared with user input. The panel's own
    folder in it is refused, because it holds the password files of all sites.
    """
    where.note("path", value)
    web_server = where.web_server
    own = f"{web_server.config_root.rstrip('/')}/paddock"
    if not confined.path_problem(value, (own,)):
        return f"“{value}” is one of Paddock's own files; use the location's realm and users"
    return confined.path_problem(value, (*web_server.site_roots, web_server.log_dir, web_server.config_root))


def ca_path(value: str, where: Where) -> str:
    """Check the path of CA certificates: it must be below a site folder, or in a folder of the system's certificates,
    which are public.
    """
    web_server = where.web_server
    if confined.path_problem(value, confined.AUTHORITIES):
        where.note("path", value)
    return confined.path_problem(value, (*web_server.site_roots, *confined.AUTHORITIES))


def uri(value: str, _where: Where) -> str:
    return confined.uri_problem(value)


def location(value: str, _where: Where) -> str:
    """Check the form of a URL: a path that this site allows (see confined.uri_problem), or any complete http(s) URL."""
    return "" if re.match(r"https?://", value, re.IGNORECASE) else confined.uri_problem(value)


def file_name(value: str, _where: Where) -> str:
    return confined.uri_problem(value if value.startswith("/") else f"/{value}")


def address(value: str, _where: Where) -> str:
    """Check the form of a source: an IP address, a network, or `all`."""
    try:
        if value.lower() != "all":
            ipaddress.ip_network(value, strict=False)
    except ValueError:
        return f"needs an IP address, a network, or all, not “{value}”"
    return ""


def regex(value: str, _where: Where) -> str:
    try:
        checks.pcre(value, "")
    except NotExpressible as error:
        return error.message
    return ""


def target(value: str, where: Where) -> str:
    where.note("target", value)
    return confined.target_problem(value, where.web_server.services)


KINDS: dict[str, Kind] = {
    **{name: _look(pattern, meaning) for name, (pattern, meaning) in _LOOKS.items()},
    "text": text,
    "path": path,
    "folder_around": folder_around,
    "password_path": password_path,
    "ca_path": ca_path,
    "uri": uri,
    "location": location,
    "file_name": file_name,
    "address": address,
    "regex": regex,
    "target": target,
}


def environment_name(value: str, _where: Where) -> str:
    """Check the name of an environment variable. Variables that make an application run other code are refused."""
    name = value.lstrip("!").split("=", 1)[0].upper()
    if not re.fullmatch(r"[A-Z0-9_.-]+", name):
        return f"needs the name of a variable, not “{value}”"
    if name in _RUNS or name.startswith(_RUNS_BEGIN):
        return f"the variable {value} can make the application run other code; use the site's PHP pool"
    return ""


_RUNS = {
    *("PATH", "ENV", "BASH_ENV", "IFS", "SHELL", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "PHP_VALUE", "PHP_ADMIN_VALUE"),
    *("PHP_FLAG", "PHP_ADMIN_FLAG", "PHPRC", "PHP_INI_SCAN_DIR", "SCRIPT_FILENAME", "SCRIPT_NAME", "PATH_TRANSLATED"),
    *("DOCUMENT_ROOT", "CONTEXT_DOCUMENT_ROOT", "CONTEXT_PREFIX", "REDIRECT_URL"),
}
_RUNS_BEGIN = ("LD_", "PERL", "PYTHON", "RUBY", "UWSGI_", "ORIG_", "PROXY-FCGI-", "GCONV_", "DYLD_")
KINDS["environment_name"] = environment_name
