"""Parse variables in values of a SiteSpec, in nginx's notation for every engine.

They are expanded in `try_files`, `return_value`, response and request header values, and (captures only) in the `alias`
of a regular-expression location. `$$` stands for one dollar sign. All other values are plain text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from panel.rendering.errors import NotExpressible

NAMES = frozenset(
    [
        "uri",
        "request_uri",
        "args",
        "query_string",
        "is_args",
        "host",
        "http_host",
        "scheme",
        "https",
        "server_name",
        "server_port",
        "remote_addr",
        "remote_port",
        "remote_user",
        "request_method",
        "document_root",
        "request_filename",
        # of a certificate that the client sent; empty without TLS
        "ssl_client_verify",
        "ssl_client_s_dn",
        "ssl_client_i_dn",
        "ssl_client_serial",
    ]
)
PREFIXES = ("http_", "arg_", "cookie_")
_NUMBER = re.compile("[1-9]")  # no server supports $0 and ${10}
_TOKEN = re.compile(r"\$(?:(\$)|([1-9])|\{([A-Za-z0-9_]+)\}|([A-Za-z0-9_]+))")


@dataclass(frozen=True)
class Variable:
    name: str

    @property
    def is_capture(self) -> bool:
        return self.name.isdigit()


Part = str | Variable


def is_known(name: str, captures: frozenset[str] = frozenset()) -> bool:
    return name in NAMES or name in captures or _NUMBER.fullmatch(name) is not None or name.startswith(PREFIXES)


def parse(value: str, field: str, *, captures: frozenset[str] = frozenset()) -> tuple[Part, ...]:
    """Return the literal texts and variables of a value, in order, with adjacent literals joined.

    Unknown variables raise NotExpressible.
    """
    parts: list[Part] = []
    end = 0
    for found in re.finditer(r"\$", value):
        if found.start() < end:
            continue
        token = _TOKEN.match(value, found.start())
        if token is None:
            raise NotExpressible(field, "$ starts a variable; use $$ for a dollar sign")
        _add(parts, value[end : found.start()])
        _add(parts, "$" if token[1] else _variable(token[2] or token[3] or token[4], field, captures))
        end = token.end()
    _add(parts, value[end:])
    return tuple(parts)


def _variable(name: str, field: str, captures: frozenset[str]) -> Variable:
    if not is_known(name, captures):
        raise NotExpressible(field, f"sites cannot use the variable ${name}; use $$ for a dollar sign")
    return Variable(name)


def _add(parts: list[Part], part: Part) -> None:
    if isinstance(part, str) and parts and isinstance(parts[-1], str):
        parts[-1] += part
    elif part:
        parts.append(part)


def names(value: str, captures: frozenset[str] = frozenset()) -> set[str]:
    """Return the names of the variables in a value; an empty set if the value cannot be parsed.

    Rendering such a value raises the error.
    """
    try:
        return {part.name for part in parse(value, "", captures=captures) if isinstance(part, Variable)}
    except NotExpressible:
        return set()


def captures_of(pattern: str) -> frozenset[str]:
    """Return the names of a regular expression's named groups: `(?<name>`, `(?P<name>` and `(?'name'`."""
    return frozenset(re.findall(r"\(\?P?[<']([A-Za-z_][A-Za-z0-9_]*)[>']", pattern))
