"""Check targets of raw directives: paths on the host, paths of the site, and other servers.

Only constant targets are accepted, so that no request can choose the target. Targets with variables belong in the
site's own fields, which other modules check. Each check returns an error message, "" if the target is allowed.
"""

from __future__ import annotations

import ipaddress
import re

from panel.rendering.roots import is_below
from panel.rendering.targets import LocalServices, is_of_host, target_of

AUTHORITIES = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted")
LEADS = "visitors could reach other files through the variable; use the site's rewrites"
LISTED = (
    "use a listed local service, or ask an administrator to add this service (Hosts, the host's page, Local services)"
)
# nginx: unix:/path, scheme://unix:/path[:/uri]. Apache: unix:/path|scheme://name[/uri]. The pattern excludes text that
# either server could read as a different path.
_SOCKET_URL = re.compile(
    r"(?:[a-z]+://)?unix:/[A-Za-z0-9_./@+-]+(?::(?:/[A-Za-z0-9_./-]*)?)?"
    r"|unix:/[A-Za-z0-9_./@+-]+\|[a-z0-9]+://[A-Za-z0-9_.-]+(?::\d+)?(?:/[A-Za-z0-9_./-]*)?"
)
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?P<host>\[[^\]/]*\]|[^/:]*)(?::(?P<port>[^/]*))?(?P<path>/.*)?\Z", re.I)


def path_problem(value: str, roots: tuple[str, ...]) -> str:
    """Return an error message unless a path on the host is constant, absolute, and below one of `roots`."""
    if "$" in value or "%{" in value:
        return f"“{value}” contains a variable; enter a path without variables"
    if not is_below(value, roots):
        named = ", ".join(filter(None, roots))
        return f"“{value}” is outside the folders of this host's sites ({named}); use a path below one of them"
    return ""


def uri_problem(value: str) -> str:
    """Return an error message unless the value is an allowed path of the site.

    The path must begin with / (or name a location), have no variable before the query, and have no `..` segment, even
    after decoding.
    """
    if re.fullmatch(r"@[A-Za-z0-9_-]+", value):
        return ""
    path = re.split(r"\?|\$is_args\b", value, maxsplit=1)[0]  # $is_args is ?, or empty without a query
    if not path.startswith("/"):
        return f"“{value}” is not a path of this site; begin it with /"
    if re.search(r"[$%]\{|\$[A-Za-z0-9_]", path):
        return f"“{value}” contains a variable in its path: {LEADS}"
    decoded = re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), path).replace("\\", "/")
    if ".." in decoded.split("/") or "\0" in decoded:
        return f"“{value}” contains ..; enter the path without it"
    return ""


def rewrite_problem(pattern: str, replacement: str) -> str:
    """Return an error message unless a rewrite's replacement path is allowed. `pattern` is the regular expression of
    the rewrite.

    The web server applies the pattern to the normalized path of the request, which has no `..` segment. A capture must
    consist of whole segments of this path, so that the capture has no `..` segment either. A capture must not follow a
    dot or adjoin another capture, because together they could form `..`.
    """
    path = re.split(r"\?|\$is_args\b", replacement, maxsplit=1)[0]
    wholes = whole_captures(pattern)
    for found in re.finditer(r"\$([1-9])", path):
        before, after = path[found.start() - 1 : found.start()], path[found.end() : found.end() + 1]
        if found[1] not in wholes or not re.fullmatch(r"[/A-Za-z0-9_-]", before) or after == "$":
            return f"“{replacement}” contains a capture in its path: {LEADS}"
    filled = (re.sub(r"\$[1-9]", text, path) for text in ("x", ""))
    return next(filter(None, map(uri_problem, filled)), "")


def whole_captures(pattern: str) -> frozenset[str]:
    """Return the numbers of the groups in `pattern` that match only whole path segments.

    Such a group follows a slash, and ends before a slash or at the end of the path.
    """
    if re.search(r"\(\?(?!:)", pattern) or "|" in re.sub(r"\([^()]*\)|\[[^\]]*\]", "", pattern):
        return frozenset()
    found: set[str] = set()
    for number, group in enumerate(_groups(pattern), 1):
        start, end = group
        follows = pattern[end + 1 :]
        takes_all = pattern[start + 1 : end] in (".*", ".+", "[^/]+", "[^/]*") and not follows
        ends = takes_all or follows == "$" or (follows[:1] == "/" and follows[1:2] not in ("?", "*", "{"))
        if ends and pattern[:start].endswith(("/", "^/?")) and not pattern[:start].endswith("\\/"):
            found.add(str(number))
    return frozenset(found)


def _groups(pattern: str) -> list[tuple[int, int]]:
    """Return (start, end) positions in the pattern of each capturing group, in order of group numbers."""
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    inside = skip = False
    for position, character in enumerate(pattern):
        if skip or character == "\\":
            skip = not skip
        elif inside:
            inside = character != "]"
        elif character == "[":
            inside = True
        elif character == "(":
            opened.append(len(found) if pattern[position + 1 : position + 2] != "?" else -1)
            found += [(position, len(pattern))] if opened[-1] >= 0 else []
        elif character == ")" and opened and (number := opened.pop()) >= 0:
            found[number] = (found[number][0], position)
    return found


def target_problem(value: str, services: LocalServices) -> str:
    """Return an error message unless the value is an allowed proxy target.

    A service of the host itself must be listed for the site's team. The name of an upstream is refused, because the
    upstream can belong to another site. Sites use upstreams by their fields, whose check includes the owner.
    """
    own = "use an upstream or a PHP pool of the site"
    if "unix:" in value.lower() or "uds:" in value.lower():
        return _socket_problem(value, services)
    found = _URL.match(value)
    host = found["host"].strip("[]") if found else ""
    if found is None or not host or re.search(r"[$%{}@\s]", host + (found["port"] or "")):
        return f"“{value}” does not name one fixed server; {own}"
    if "$" in (found["path"] or "").partition("?")[0]:
        return f"“{value}” contains a variable in its path; {own}"
    if is_of_host(target_of(value), services.own) or not services.permits(value):
        return _local_problem(value, found["port"] or "", services)
    if _is_inner(host):
        return f"“{value}” is the host itself or another site's upstream; {own}"
    return ""


def _socket_problem(value: str, services: LocalServices) -> str:
    if not _SOCKET_URL.fullmatch(value):
        return (
            f"“{value}” is not a valid socket; enter a plain path such as unix:/run/app.sock or "
            "http://unix:/run/app.sock:/"
        )
    return "" if services.permits(value) else f"“{value}” is a Unix socket of the host; {LISTED}"


def _local_problem(value: str, port: str, services: LocalServices) -> str:
    if not re.fullmatch(r"\d{1,5}", port) and not re.match(r"https?://", value, re.I):
        return f"“{value}” is a service of the host itself; enter its port and {LISTED}"
    return "" if services.permits(value) else f"“{value}” is a service of the host itself; {LISTED}"


def _is_inner(host: str) -> bool:
    """Return whether the host is loopback, link-local or unspecified in any notation, or a name without a dot."""
    name = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        # inet_aton also accepts 127.1, 0x7f000001 and 2130706433; names never look like that.
        return "." not in name or name.endswith(".localhost") or bool(re.fullmatch(r"[0-9a-fx.]*[0-9]", name))
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified or mapped.is_multicast
