"""Shared helpers of the mappings: record the outcome of a directive, check values, build snippets, choose names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from django.core.exceptions import ValidationError

from panel.imports.reading import Node
from panel.imports.report import CertificateFiles, FoundSite, Item, Outcome, shown
from panel.rendering import snippets
from panel.rendering.apache.quoting import line as apache_line
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx.quoting import line as nginx_line
from panel.rendering.spec import WebServerSpec
from panel.rendering.tree import Directive
from panel.websites.definitions import BlockData, LocationData, PhpPoolData, SiteData, UpstreamData

_Named = TypeVar("_Named", UpstreamData, PhpPoolData)
INDENT = "    "
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "M": 2592000, "y": 31536000}
_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass
class Draft:
    """State of the mapping of one site: the parts of its definition so far, and the outcome of every directive."""

    web_server: WebServerSpec
    items: list[Item] = field(default_factory=list)
    upstreams: list[UpstreamData] = field(default_factory=list)
    php_pools: list[PhpPoolData] = field(default_factory=list)
    blocks: list[BlockData] = field(default_factory=list)
    certificates: list[CertificateFiles] = field(default_factory=list)
    cache_mb: int | None = None  # None: the model's default

    def note(self, node: Node, outcome: Outcome, note: str = "", where: str = "") -> None:
        """Record the outcome of a directive. The outcome of a block also holds for the directives inside of the block
        that have no outcome of their own.
        """
        self.items.append(Item(node.file, node.line, shown(node), outcome, note, where))

    def snippet(self, owner: BlockData | LocationData, node: Node, where: str, why: str = "") -> None:
        """Add a directive unchanged to the raw directives of `owner`, a server block or location. A directive that
        sites must not contain is recorded as refused instead. `why`: a note to record.
        """
        node = _absolute(node, self.web_server)
        try:
            text = printed(node, self.web_server.engine)
            place = "location" if "locations" in where else "server"
            problems = snippets.check(text, self.web_server, place)
        except NotExpressible as error:
            self.note(node, "refused", error.message, where)
            return
        if problems:
            self.note(
                node, "refused", "; ".join(f"{problem.directive}: {problem.message}" for problem in problems), where
            )
            return
        texts = owner.setdefault("snippets", {})
        before = texts.get(self.web_server.engine, "")
        texts[self.web_server.engine] = f"{before}\n{text}" if before else text
        self.note(node, "snippet", why, where)

    def definition(self, name: str) -> SiteData:
        made: SiteData = {
            "name": name,
            "upstreams": self.upstreams,
            "php_pools": self.php_pools,
            "blocks": self.blocks,
        }
        if self.cache_mb is not None:
            made["cache_mb"] = self.cache_mb
        return made

    def named(self, rows: list[_Named], wanted: str, row: _Named) -> str:
        """Return the name of the upstream or pool in `rows` that has the values of `row`. If there is none, add `row`
        to `rows` under the name `wanted`, or `wanted` with the next free number.
        """
        for known in rows:
            if {key: value for key, value in known.items() if key != "name"} == row:
                return str(known["name"])
        taken = {known["name"] for known in rows}
        name, number = wanted, 2
        while name in taken:
            name, number = f"{wanted[:58]}-{number}", number + 1
        added = row.copy()
        added["name"] = name
        rows.append(added)
        return name


def _absolute(node: Node, web_server: WebServerSpec) -> Node:
    """Return the node with absolute paths of password files.

    In nginx, these paths are relative to the folder of nginx.conf, but the panel's files are in other folders
    (ngx_http_auth_basic_user_file).
    """
    if node.low == "auth_basic_user_file" and node.args and "$" not in node.value:
        return replace(node, args=(posixpath.join(web_server.config_root, node.value), *node.args[1:]))
    return node if node.body is None else replace(node, body=tuple(_absolute(item, web_server) for item in node.body))


def make_site(draft: Draft, name: str) -> FoundSite:
    return FoundSite(name, draft.definition(name), draft.items, [], draft.certificates)


def fits(check: Callable[[Any], object], value: Any) -> str:
    """Return "" if the validator `check` accepts the value, otherwise the message of the validator's error."""
    try:
        check(value)
    except ValidationError as error:
        return " ".join(error.messages)
    except NotExpressible as error:
        return error.message
    return ""


def seconds(value: str) -> float | None:
    """Parse a time of nginx or Apache (60, 60s, 1m30s) and return seconds; None if invalid."""
    if re.fullmatch(r"\d+", value):
        return float(value)
    if not re.fullmatch(r"(?:\d+(?:ms|[smhdwMy]))+", value):
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhdwMy])", value))


def whole_seconds(value: str) -> int | None:
    found = seconds(value)
    return int(found) if found is not None and found == int(found) and found >= 1 else None


def megabytes(value: str) -> int | None:
    """Parse a size of nginx (64m, 1g) and return whole MiB; None if it is invalid or not a whole number of MiB."""
    match = re.fullmatch(r"(\d+)([kKmMgG]?)", value)
    if not match:
        return None
    size = int(match[1]) * _SIZES[match[2].lower()]
    return size // 1024**2 if size % 1024**2 == 0 else None


def slug(text: str, fallback: str = "site") -> str:
    """Convert a text to a name of a-z, 0-9 and hyphens with at most 60 characters; `fallback` if nothing remains."""
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-")
    return found or fallback


def free_name(wanted: str, taken: Iterable[str]) -> str:
    known, name, number = set(taken), wanted, 2
    while name in known:
        name, number = f"{wanted[:58]}-{number}", number + 1
    return name


def printed(node: Node, engine: str) -> str:
    """Return a directive as text in the syntax of an engine."""
    return "\n".join(PRINTERS[engine](node, 0))


def _nginx(node: Node, depth: int) -> list[str]:
    words = INDENT * depth + nginx_line(Directive(node.name, node.args))
    if node.body is None:
        return [f"{words};"]
    inner = [line for child in node.body for line in _nginx(child, depth + 1)]
    return [f"{words} {{", *inner, INDENT * depth + "}"]


def _apache(node: Node, depth: int) -> list[str]:
    words = apache_line(Directive(node.name, node.args))
    if node.body is None:
        return [INDENT * depth + words]
    inner = [line for child in node.body for line in _apache(child, depth + 1)]
    return [f"{INDENT * depth}<{words}>", *inner, f"{INDENT * depth}</{node.name}>"]


def _openlitespeed(node: Node, depth: int) -> list[str]:
    value = node.value
    if "\n" in value:
        return [f"{node.name} <<<END_{node.name}", *value.split("\n"), f"END_{node.name}"]
    words = INDENT * depth + " ".join(part for part in (node.name, value) if part)
    if node.body is None:
        return [words]
    inner = [line for child in node.body for line in _openlitespeed(child, depth + 1)]
    return [f"{words} {{", *inner, INDENT * depth + "}"]


PRINTERS = {"nginx": _nginx, "native": _nginx, "apache": _apache, "openlitespeed": _openlitespeed}
