"""Server names: valid forms, and the precedence among them in nginx.

Source: nginx's documentation of `server_name`: exact name, longest wildcard that begins with `*`, longest that ends
with `*`, first matching regular expression in order, else the default server of the address and port.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Literal

from panel.rendering import checks
from panel.rendering.errors import NotExpressible
from panel.rendering.pcre import search

Kind = Literal["exact", "leading", "dot", "trailing", "regex"]

_LABELS = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_-])?\Z")


def kind(name: str) -> Kind:
    if name.startswith("~"):
        return "regex"
    if name.startswith("*."):
        return "leading"
    if name.startswith("."):
        return "dot"
    return "trailing" if name.endswith(".*") else "exact"


def is_ipv6(name: str) -> bool:
    """Return whether the name is an IPv6 address in brackets, as in the Host header."""
    try:
        return name.startswith("[") and name.endswith("]") and not ipaddress.IPv6Address(name[1:-1]).scope_id
    except ValueError:
        return False


def check(name: str, field: str) -> str:
    """Return the name if valid; raise NotExpressible otherwise. Internationalized names must be in ASCII form."""
    checks.text(name, field)
    if is_ipv6(name):
        return name
    if kind(name) == "regex":
        return "~" + checks.pcre(name[1:], field)
    bare = name.removeprefix("*." if name.startswith("*.") else ".").removesuffix(".*")
    if not name.isascii():
        raise NotExpressible(
            field, f"“{name}” contains non-ASCII letters; use {_ascii(name)}, the form that browsers send"
        )
    if not _LABELS.match(bare):
        raise NotExpressible(
            field,
            f"“{name}” is not a server name; use the form example.com, *.example.com, "
            ".example.com, example.*, or ~regular expression",
        )
    return name


def _ascii(name: str) -> str:
    try:
        return f"“{name.encode('idna').decode()}”"
    except UnicodeError:
        return "the punycode form of the name"


def regex_source(name: str) -> str:
    """Return the regular expression of a `~` name."""
    return name[1:]


def _beats(name: str, host: str) -> tuple[int, int] | None:
    """Return the rank of a server name among those that match `host`; the smallest is best. None if the name does not
    match, and for regular expressions.
    """
    name = name.lower()
    form = kind(name)
    if form == "exact" and name == host:
        return (0, 0)
    if form == "dot" and host == name[1:]:
        return (0, 0)
    if form in ("leading", "dot") and host.endswith(name.removeprefix("*")) and host != name.removeprefix("*"):
        return (1, -len(name.removeprefix("*")))
    if form == "trailing" and host.startswith(name[:-1]) and len(host) > len(name) - 1:
        return (2, -len(name))
    return None


def best(host: str, names: list[tuple[int, str]]) -> tuple[int, str] | None:
    """Return the (server block number, name) pair that nginx chooses for `host`; None if no name matches.

    `names` are the pairs in configuration order.
    """
    ranked = [
        (rank, pair) for pair in names if kind(pair[1]) != "regex" and (rank := _beats(pair[1], host)) is not None
    ]
    if ranked:
        return min(ranked, key=lambda item: item[0])[1]
    for number, name in names:
        if kind(name) == "regex" and search(regex_source(name), host, nocase=True) is not None:
            return number, name
    return None
