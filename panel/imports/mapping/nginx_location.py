"""Map one nginx `location` to a location of a site."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Literal

from panel.imports.mapping.common import Draft, fits, megabytes
from panel.imports.mapping.nginx_cache import cached
from panel.imports.mapping.nginx_handlers import PROXY_WORDS, fastcgi, proxy
from panel.imports.mapping.nginx_protocols import grpc, uwsgi
from panel.imports.mapping.nginx_rewrites import rewrites_of
from panel.imports.reading import Node
from panel.rendering import variables
from panel.rendering.handlers import REDIRECTS
from panel.websites import shapes, validators
from panel.websites.definitions import BlockData, HeaderData, LocationData

REWRITES = ("rewrite", "if", "set", "break", "rewrite_log", "uninitialized_variable_warn")
MATCHES = ("=", "^~", "~*", "~")
TEXT = "text/plain"


class Chain:
    """Levels of directives that a location inherits, innermost first. nginx inherits all directives of a name from one
    level, or none.
    """

    def __init__(self, *levels: Sequence[Node]) -> None:
        self.levels = levels

    def effective(self, name: str) -> list[Node]:
        """Return the effective directives of a name: those of the innermost level that has directives of this name."""
        for level in self.levels:
            if found := [node for node in level if node.name == name]:
                return found
        return []

    def one(self, name: str) -> str:
        found = self.effective(name)
        return found[-1].value if found else ""


class Location:
    """State of mapping a location: the site mapped so far (`draft`), the location's fields so far (`row`), and the
    directives of the location and of the levels around it (`chain`).
    """

    def __init__(
        self, draft: Draft, node: Node, chain: Chain, where: str, upstreams: dict[str, Node], prefix: str
    ) -> None:
        self.draft = draft
        self.node = node
        self.own = tuple(node.body or ())
        self.chain = chain
        self.where = where
        self.upstreams = upstreams
        self.prefix = prefix  # base of relative paths
        self.row: LocationData = {}

    @property
    def is_regex(self) -> bool:
        return str(self.row["match"]) in ("~", "~*")

    def known(self, texts: Sequence[str]) -> bool:
        """Return whether sites support every variable that `texts` contain."""
        captures = variables.captures_of(self.row["pattern"]) if self.is_regex else frozenset()
        return not any(fits(lambda value: variables.parse(value, "/", captures=captures), text) for text in texts)

    def raw(self, node: Node, why: str = "") -> None:
        self.draft.snippet(self.row, node, self.where, why)

    def took(self, node: Node, outcome: str = "mapped", note: str = "") -> None:
        self.draft.note(node, "changed" if outcome == "changed" else "mapped", note, self.where)


def matched(node: Node) -> tuple[str, str] | None:
    """Return (modifier, pattern) of a location, for example ("^~", "/static/"). None for unsupported forms, such as
    named locations and patterns without a leading slash.
    """
    args = node.args
    if len(args) == 2 and args[0] in MATCHES:
        match, pattern = args
    elif len(args) == 1:
        match = next((word for word in MATCHES if args[0].startswith(word)), "")
        pattern = args[0][len(match) :]
    else:
        return None
    check = validators.validate_regex if match in ("~", "~*") else validators.validate_uri_path
    return None if fits(check, pattern) or ("?" in pattern and match in ("", "=", "^~")) else (match, pattern)


def location(
    draft: Draft,
    block: BlockData,
    node: Node,
    around: Sequence[Sequence[Node]],
    upstreams: dict[str, Node],
    prefix: str,
) -> None:
    """Map a location and add it to `block`. A location that sites cannot express becomes raw directives of `block`."""
    at = f"blocks/{len(draft.blocks) - 1}"
    found = matched(node)
    if found is None or any(child.low == "location" and child.args == node.args for child in node.body or ()):
        draft.snippet(
            block, node, at, "sites do not support this location: its path is a name (@), or its form is unusual"
        )
        return
    rows = block["locations"]
    where = f"{at}/locations/{len(rows)}"
    place = Location(draft, node, Chain(node.body or (), *around), where, upstreams, prefix)
    place.row = {"match": found[0], "pattern": found[1], "handler": "static"}
    rows.append(place.row)
    draft.note(node, "mapped", where=where)
    _fill(place)


def _fill(place: Location) -> None:
    names = {node.name for node in place.own}
    if "proxy_pass" in names and proxy(place):
        _rest(place, PROXY_WORDS | cached(place, "proxy"))
    elif "fastcgi_pass" in names and (taken := fastcgi(place)) is not None:
        _rest(place, taken | cached(place, "fastcgi"))
    elif "grpc_pass" in names and (taken := grpc(place)) is not None:
        _rest(place, taken)
    elif "uwsgi_pass" in names and (taken := uwsgi(place)) is not None:
        _rest(place, taken | cached(place, "uwsgi"))
    elif "return" in names and _returns(place):
        _rest(place, frozenset({"return", "default_type"}))
    elif names == {"deny"} and [node.args for node in place.own] == [("all",)]:
        place.row["handler"] = "deny"
        place.took(place.own[0])
    else:
        _rest(place, frozenset())


def _returns(place: Location) -> bool:
    """Map the fixed response (`return`) of a location. Return False if the location also has rewrite rules, or if the
    panel would change the response, for example its media type; the directives are then kept as raw directives.
    """
    if any(node.name in REWRITES for node in place.own):
        return False
    node = next(item for item in place.own if item.name == "return")
    code, value = return_of(node)
    is_redirect = code in REDIRECTS
    kinds = [item.value for item in place.own if item.name == "default_type"]
    if code is None or not place.known([value]) or (value and not is_redirect and kinds != [TEXT]):
        return False
    if is_redirect and not value.startswith(("http://", "https://", "/", "$scheme://")):
        return False
    place.row |= {"handler": "return", "return_code": code, "return_value": value}
    for item in place.own:
        if item.name in ("return", "default_type"):
            place.took(item)
    return True


def return_of(node: Node) -> tuple[int | None, str]:
    """Return the status and the URL or text of a `return`; (None, "") for a status that sites do not support."""
    first, *rest = (*node.args, "")
    if not first.isdigit():
        return 302, first
    code = int(first)
    if not 200 <= code <= 599 or (300 <= code < 400 and code not in REDIRECTS):
        return None, ""
    return code, rest[0]


def _rest(place: Location, taken: frozenset[str]) -> None:
    """Map each directive of a location whose name is not in `taken`. A directive that cannot be mapped is kept as a raw
    directive of the location.
    """
    for node in place.own:
        if node.name in taken:
            continue
        take = _TAKERS.get(node.name)
        why = take(place, node) if take and node.body is None else None
        if why == "":
            place.took(node)
        else:
            place.raw(node, why or "")


def _path(place: Location, node: Node, name: Literal["root", "alias"]) -> str:
    if place.row["handler"] not in ("static", "php"):
        return "in sites, only locations that serve files support this directive"
    if name == "alias" and place.is_regex:
        return "sites do not support an alias with a regular expression"
    path = posixpath.join(place.prefix, node.value)
    if why := fits(validators.validate_path, path):
        return why
    place.row[name] = path
    return ""


def _index(place: Location, node: Node) -> str:
    if place.row["handler"] != "static":
        return "in sites, only locations that serve files support this directive"
    if why := fits(shapes.validate_index, list(node.args)):
        return why
    place.row["index"] = list(node.args)
    return ""


def _try_files(place: Location, node: Node) -> str:
    if place.row["handler"] not in ("static", "php"):
        return "in sites, only locations that serve files support this directive"
    if why := fits(shapes.validate_try_files, list(node.args)):
        return why
    if not place.known(node.args):
        return "the directive uses a variable that sites do not support"
    place.row["try_files"] = list(node.args)
    return ""


def _autoindex(place: Location, node: Node) -> str:
    place.row["autoindex"] = node.value == "on"
    return ""


def _header(place: Location, node: Node) -> str:
    """Map an add_header of a location. Return "" if mapped, otherwise the reason to keep it as a raw directive. One
    reason is an add_header on an outer level: a site would send the headers of both levels, but nginx sends only the
    location's.
    """
    others = [item for level in place.chain.levels[1:] for item in level if item.name == "add_header"]
    if others:
        return "in nginx, this header replaces the server block's headers; a site would send both"
    if why := header_fits(node.args):
        return why
    if not place.known(node.args[1:2]):
        return "the directive uses a variable that sites do not support"
    place.row.setdefault("headers", []).append(header_of(node.args))
    return ""


def header_of(args: Sequence[str]) -> HeaderData:
    return {"name": args[0], "value": args[1], "always": args[2:] == ("always",)}


def header_fits(args: Sequence[str]) -> str:
    if len(args) not in (2, 3) or (len(args) == 3 and args[2] != "always"):
        return "sites do not support this form of the directive"
    return fits(shapes.validate_headers, [{"name": args[0], "value": args[1]}])


def _expires(place: Location, node: Node) -> str:
    value = node.value
    if len(node.args) != 1 or fits(validators.validate_expires, value):
        return "sites do not support this form of the directive"
    place.row["expires"] = value
    return ""


def _access(place: Location, node: Node) -> str:
    if why := fits(validators.validate_access_source, node.value):
        return why
    place.row.setdefault("access_rules", []).append({"action": node.name, "source": node.value})
    return ""


def _body_size(place: Location, node: Node) -> str:
    size = megabytes(node.value)
    if size is None:
        return "sites support only sizes in whole megabytes"
    place.row["client_max_body_mb"] = size
    return ""


def _gzip(place: Location, node: Node) -> str:
    """Map gzip of a location. Return "" if mapped. For `gzip on` without gzip_vary, return the reason to keep it as a
    raw directive: the panel always adds Vary.
    """
    if node.value == "on" and place.chain.one("gzip_vary") != "on":
        return "sites do not support this without gzip_vary"
    place.row["gzip"] = node.value
    return ""


def _vary(place: Location, node: Node) -> str:
    compresses = any(item.name == "gzip" and item.value == "on" for item in place.own)
    return "" if node.value == "on" and compresses else "sites support gzip_vary only with gzip in the same location"


def _rewrite(place: Location, node: Node) -> str:
    found, why = rewrites_of(place.own)
    if not why:
        place.row["rewrites"] = found
    return why


_TAKERS: dict[str, Callable[[Location, Node], str]] = {
    "root": lambda place, node: _path(place, node, "root"),
    "alias": lambda place, node: _path(place, node, "alias"),
    "index": _index,
    "try_files": _try_files,
    "autoindex": _autoindex,
    "add_header": _header,
    "expires": _expires,
    "allow": _access,
    "deny": _access,
    "client_max_body_size": _body_size,
    "gzip": _gzip,
    "gzip_vary": _vary,
    "rewrite": _rewrite,
}
