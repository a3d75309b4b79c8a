"""Map one OpenLiteSpeed virtual host to a server block of a site."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from django.core.exceptions import ValidationError

from panel.imports import litespeed
from panel.imports.htaccess import HTACCESS
from panel.imports.mapping import openlitespeed_rewrites
from panel.imports.mapping.common import Draft, fits
from panel.imports.mapping.openlitespeed_context import address_of, context
from panel.imports.nodes import Node
from panel.imports.report import CertificateFiles
from panel.rendering import logformats
from panel.rendering.roots import is_below
from panel.websites import shapes, validators
from panel.websites.definitions import BlockData, ErrorPageData, PhpPoolData

LAST = ("rewrite", HTACCESS)  # handled last, when the contexts are known
RUNS_NOTHING = "-this virtual host runs no scripts, but in sites of Paddock the web server's script handlers run"
USED = ("proxy", "fcgi")


class Host:
    """State of the mapping of a virtual host to `block`. `around`: the server's settings for all virtual hosts."""

    def __init__(self, draft: Draft, node: Node, around: Sequence[Node], prefix: str) -> None:
        self.draft = draft
        self.node = node
        self.own = tuple(node.body or ())
        self.around = around
        self.prefix = prefix
        self.where = "blocks/0"
        self.block: BlockData = {"listens": [], "names": [], "locations": []}
        apps = [item for item in (*around, *self.own) if item.name == "extprocessor"]
        self.apps = {item.value: {child.name: child.value for child in item.body or ()} for item in apps}
        self.used: set[str] = set()  # applications used by a mapped location
        self.root, self.documents = litespeed.folders(node, prefix)

    def value(self, name: str) -> str:
        return litespeed.says(self.own, name)

    def inside(self, name: str) -> tuple[Node, ...]:
        return next((item.body or () for item in self.own if item.name == name), ())

    def server(self, name: str, block: str = "") -> str:
        """Return a server-wide setting: in the server's block `block`, or outside of blocks if `block` is empty. "" if
        the setting is missing.
        """
        inside = [child for item in self.around if item.name == block for child in item.body or ()]
        return litespeed.says(inside if block else self.around, name)

    def path(self, value: str) -> str:
        names = {"SERVER_ROOT": self.prefix, "VH_NAME": self.node.value, "VH_ROOT": self.root}
        return litespeed.expanded(value, {**names, "DOC_ROOT": self.documents})

    def add_name(self, name: str) -> None:
        if name == "*" or name.startswith("$"):
            return
        try:
            normal = validators.server_name_normalized(name)
        except ValidationError as error:
            self.draft.note(self.node, "refused", f"{name}: {' '.join(error.messages)}", self.where)
            return
        if normal not in self.block["names"]:
            self.block["names"].append(normal)

    def settled(self, node: Node) -> Node:
        """Return a directive with $VH_NAME and $VH_ROOT replaced by their values, because these variables have other
        values in the site's own virtual host.
        """
        names = {"VH_NAME": self.node.value, "VH_ROOT": self.root}
        args = tuple(_variables(value, names) for value in node.args)
        inside = [item for item in node.body or () if item.name != "autoloadhtaccess"]  # not allowed in a site
        body = None if node.body is None else tuple(self.settled(item) for item in inside)
        return replace(node, args=args, body=body)


def _variables(value: str, names: dict[str, str]) -> str:
    for name, real in names.items():
        value = re.sub(re.escape(f"${name}"), lambda _match, real=real: real.rstrip("/"), value, flags=re.I)  # type: ignore[misc]
    return value


def fill(made: Host) -> None:
    """Map every directive of a virtual host to its block, and record the outcomes."""
    _index(made)
    applications = [item for item in made.own if item.name == "extprocessor"]
    last = [item for item in made.own if item.name in LAST]
    for item in made.own:
        if item not in last and item not in applications:
            _take(made, item, _TAKERS.get(item.name))
    for item in last:
        _take(made, item, openlitespeed_rewrites.take)
    for item in applications:
        _take(made, item, _application)


def _take(made: Host, item: Node, take: Callable[[Host, Node], str | None] | None) -> None:
    """Map a directive with the function `take`, and record the outcome that the function returns: "" if mapped, "!note"
    if the site differs slightly, "-note" if refused. Other text and None keep the directive as a raw directive, with
    the text as the reason.
    """
    why = take(made, item) if take else None
    if why == "":
        made.draft.note(item, "mapped", where=made.where)
    elif why is not None and why.startswith("!"):
        made.draft.note(item, "changed", why[1:], made.where)
    elif why is not None and why.startswith("-"):
        made.draft.note(item, "refused", why[1:], made.where)
    else:
        made.draft.snippet(made.block, made.settled(item), made.where, why or "")


def _usual(value: str, words: str) -> Callable[[Host, Node], str]:
    """Return a mapping function for a directive that the panel always writes with `value`. If the imported value
    differs, the mapping function returns a note, which ends with `words`.
    """
    return lambda made, node: "" if node.value == value else f"!Paddock writes {value}: {words}"


def _root(made: Host, node: Node) -> str:
    if why := fits(validators.validate_path, made.documents):
        return f"-{why}"
    made.block["root"] = made.documents
    return ""


def _domains(made: Host, node: Node) -> str:
    """Accept vhDomain and vhAliases. If the virtual host lists listeners, the module `openlitespeed` has already mapped
    these domain names. Otherwise, the names have no effect, which a note explains.
    """
    return (
        ""
        if made.value("listeners")
        else ("!the names come from the maps of the listeners; this directive adds no names")
    )


def _listeners(made: Host, node: Node) -> str:
    return "!Paddock writes the maps of the listeners itself"


def _index(made: Host) -> None:
    """Set the index files and autoindex of a virtual host, own or inherited, because the panel always writes both."""
    values = {item.name: item.value for item in made.inside("index")}
    server = made.server("indexfiles") or "index.html"
    said = {"0": "", "1": server, "2": server}[values.get("useserver", "1" if not values else "0")[:1] or "0"]
    own = values.get("indexfiles", "" if said else "index.html") if values.get("useserver") != "1" else ""
    names = [name.strip() for name in f"{own},{said}".split(",") if name.strip()]
    made.block["index"] = [name for name in dict.fromkeys(names) if not fits(shapes.validate_index, [name])]
    made.block["autoindex"] = (values.get("autoindex") or made.server("autoindex")) == "1"


def _index_block(made: Host, node: Node) -> str:
    known = {"useserver", "indexfiles", "autoindex"}
    more = sorted({item.name for item in node.body or ()} - known)
    return f"!without {', '.join(more)}" if more else ""


def _error_page(made: Host, node: Node) -> str:
    uri = litespeed.says(node.body or (), "url")
    if not node.value.isdigit():
        return "sites do not support this form of the directive"
    page: ErrorPageData = {"codes": [int(node.value)], "uri": uri, "response": None}
    pages = [*made.block.get("error_pages", []), page]
    if why := fits(shapes.validate_error_pages, pages):
        return why
    made.block["error_pages"] = pages
    return ""


def _log(made: Host, node: Node) -> str:
    name: Literal["access_log", "error_log"] = "access_log" if node.name == "accesslog" else "error_log"
    values = {item.name: item.value for item in node.body or ()}
    path, web_server = made.path(node.value), made.draft.web_server
    if values.get("useserver", "1" if not values else "0") == "1":
        return ""
    if name == "access_log" and values.get("useserver") == "2":
        made.block[name] = "off"
        return ""
    if why := fits(validators.validate_log_path, path):
        return why
    roots = (*filter(None, (web_server.log_dir,)), *web_server.site_roots)
    if web_server.log_dir and not is_below(path, roots):
        return (
            f"-the log file is outside of {web_server.log_dir} and the host's site folders; Paddock uses the web "
            "server's shared log"
        )
    if why := _format(made, values.get("logformat", "")):
        return why
    made.block[name] = path
    kept = {"useserver", "loglevel", "logformat", "rollingsize", "logheaders"}
    return "!Paddock does not import settings of log rotation" if set(values) - kept else ""


def _format(made: Host, text: str) -> str:
    found = next((ours for ours, theirs in logformats.OPENLITESPEED.items() if text.strip('"') == theirs), None)
    if found is None and text:
        return "sites do not support this log format"
    if found:
        made.block["access_log_format"] = found
    return ""


def _tls(made: Host, node: Node) -> str:
    values = {item.name: item.value for item in node.body or ()}
    if values.get("certfile") and values.get("keyfile"):
        files = CertificateFiles(0, made.path(values["certfile"]), made.path(values["keyfile"]))
        made.draft.certificates[:] = [files]
    said = {"certfile", "keyfile", "certchain", "enablespdy", "enablequic"}
    more = sorted(set(values) - said - ({"sslprotocol"} if values.get("sslprotocol") == "24" else set()))
    return f"!Paddock writes its own TLS settings, without {', '.join(more)}" if more else ""


def _application(made: Host, node: Node) -> str | None:
    """Map an external application if a mapped location uses it; otherwise keep it as raw directives."""
    return "" if node.value in made.used and litespeed.says(node.body or (), "type") in USED else None


def _scripts(made: Host, node: Node) -> str | None:
    """Map a script handler for PHP to a location, if an existing FastCGI pool runs the scripts; keep other handlers as
    raw directives.
    """
    words = [item.value.split() for item in node.body or () if item.name == "add"]
    if len(words) != 1 or len(words[0]) != 2 or words[0][1] != "php" or ":" not in words[0][0]:
        return None
    name = words[0][0].split(":", 1)[1]
    app = made.apps.get(name, {})
    address = address_of(app.get("address", ""))
    if app.get("type") != "fcgi" or fits(validators.validate_upstream_address, address):
        return None
    made.used.add(name)
    row: PhpPoolData = {"address": address, "settings": {}}
    pool = made.draft.named(made.draft.php_pools, "php", row)
    made.block["locations"].append({"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": pool})
    return ""


def _switch(name: Literal["gzip", "brotli"]) -> Callable[[Host, Node], str]:
    def take(made: Host, node: Node) -> str:
        if node.value not in ("0", "1"):
            return "sites do not support this form of the directive"
        made.block[name] = "on" if node.value == "1" else "off"
        return ""

    return take


_TAKERS: dict[str, Callable[[Host, Node], str | None]] = {
    "member": lambda made, node: "",
    "vhroot": lambda made, node: "",
    "configfile": lambda made, node: "",
    "enabled": lambda made, node: (
        "" if node.value == "1" else "-this virtual host is disabled, but the site would be enabled; disable the site"
    ),
    "enablescript": lambda made, node: "" if node.value == "1" else RUNS_NOTHING,
    "allowsymbollink": _usual("1", "the web server follows symbolic links"),
    "restrained": _usual(
        "0", "the web server also serves files outside of the virtual host's root through symbolic links"
    ),
    "setuidmode": _usual("0", "programs run as the web server's user"),
    "note": lambda made, node: "!Paddock does not import the virtual host's note",
    "listeners": _listeners,
    "docroot": _root,
    "vhdomain": _domains,
    "vhaliases": _domains,
    "index": _index_block,
    "errorpage": _error_page,
    "accesslog": _log,
    "errorlog": _log,
    "enablegzip": _switch("gzip"),
    "enablebr": _switch("brotli"),
    "vhssl": _tls,
    "scripthandler": _scripts,
    "context": context,
}
