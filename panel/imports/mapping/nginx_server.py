"""Map one nginx `server` to a server block of a site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import Literal

from django.core.exceptions import ValidationError

from panel.imports.mapping.common import Draft, fits, megabytes
from panel.imports.mapping.nginx_location import REWRITES, header_fits, header_of, location, return_of
from panel.imports.mapping.nginx_rewrites import rewrites_of
from panel.imports.reading import Node
from panel.imports.report import CertificateFiles
from panel.rendering import logformats, variables
from panel.rendering.handlers import REDIRECTS
from panel.rendering.nginx.scope import Dialect
from panel.rendering.roots import is_below
from panel.websites import shapes, validators
from panel.websites.definitions import BlockData, ErrorPageData, ListenData, LocationData

ADDRESS = re.compile(r"(?:(?P<v6>\[[0-9A-Fa-f:.]+\])|(?P<v4>[0-9.]+\.[0-9.]+|\*|localhost))?:?(?P<port>\d+)?\Z")
OWN_TLS = ("ssl_protocols", "ssl_session_cache", "ssl_session_timeout")
TLS_WORDS = {"ssl_protocols": ("TLSv1.2", "TLSv1.3")}


class Server:
    """State of mapping an nginx `server` to `block`. `http`: the directives around the `server`, which it inherits."""

    def __init__(self, draft: Draft, node: Node, http: Sequence[Node], upstreams: dict[str, Node], prefix: str) -> None:
        self.draft = draft
        self.node = node
        self.own = tuple(node.body or ())
        self.http = http
        self.upstreams = upstreams
        self.prefix = prefix
        self.where = f"blocks/{len(draft.blocks)}"
        self.block: BlockData = {"listens": [], "names": [], "locations": []}

    def inherits(self, name: str) -> list[Node]:
        return [node for node in self.own if node.name == name] or [node for node in self.http if node.name == name]

    def raw(self, node: Node, why: str = "") -> None:
        self.draft.snippet(self.block, node, self.where, why)


def server(draft: Draft, node: Node, http: Sequence[Node], upstreams: dict[str, Node], prefix: str) -> BlockData:
    """Map an nginx `server` to a server block, add the block to the site in `draft`, and return the block."""
    made = Server(draft, node, http, upstreams, prefix)
    draft.blocks.append(made.block)
    draft.note(node, "mapped", where=made.where)
    _listens(made)
    final = next((number for number, item in enumerate(made.own) if item.name == "return"), None)
    for number, item in enumerate(made.own):
        if item.name == "listen" or (item.name == "location" and final is None):
            continue
        if item.name == "location" or (final is not None and number > final and item.name in REWRITES):
            why = f"this {item.name} has no effect because the server block's return ends every request"
            draft.note(item, "changed", why, made.where)
            continue
        _take(made, item)
    if final is None:
        for item in made.own:
            if item.name == "location":
                location(draft, made.block, item, (made.own, http), upstreams, prefix)
    _inherited_root(made)
    _certificate(made)
    return made.block


def _inherited_root(made: Server) -> None:
    """Set the root of a server that has no root itself: the inherited root, or html, the default of nginx."""
    outside = [node.value for node in made.http if node.name == "root"]
    if "root" in made.block or not (outside or not made.block["locations"]):
        return
    path = posixpath.join(made.prefix, outside[-1] if outside else "html")
    if not fits(validators.validate_path, path):
        made.block["root"] = path


def _take(made: Server, node: Node) -> None:
    if node.name == "return":
        _return(made, node)
        return
    take = _TAKERS.get(node.name)
    why = take(made, node) if take and node.body is None else None
    if why == "":
        made.draft.note(node, "mapped", where=made.where)
    elif why is not None and why.startswith("!"):
        made.draft.note(node, "changed", why[1:], made.where)
    else:
        made.raw(node, why or "")


# --- listen ---


_Flag = Literal["tls", "http2", "default_server"]
LISTEN: dict[str, _Flag] = {"ssl": "tls", "http2": "http2", "default_server": "default_server"}


def listen_of(node: Node) -> tuple[ListenData | None, list[str]]:
    """Return (`listen` as a field of sites, unsupported parameters); (None, []) if the address is not supported."""
    match = ADDRESS.match(node.value)
    if match is None or not (match["v6"] or match["v4"] or match["port"]):
        return None, []
    address = (match["v6"] or "").strip("[]") or {"*": "", "localhost": "127.0.0.1"}.get(match["v4"] or "", match["v4"])
    address = "" if address in (None, "0.0.0.0") else address  # noqa: S104 - nginx's word for every address
    if address and fits(validators.validate_listen_address, address):
        return None, []
    words = set(node.args[1:])
    found: ListenData = {"port": int(match["port"] or 80), "address": address}
    for parameter, name in LISTEN.items():
        found[name] = parameter in words or (parameter == "default_server" and "default" in words)
    known = {"ssl", "http2", "default_server", "default", "quic", "ipv6only=on"}
    return found, sorted(words - known)


def _listens(made: Server) -> None:
    nodes = [node for node in made.own if node.name == "listen"]
    for node in nodes:
        found, unknown = listen_of(node)
        if found is None or "proxy_protocol" in unknown:
            made.draft.note(node, "refused", "sites do not support this listen address", made.where)
            continue
        _add_listen(made.block["listens"], found, is_quic="quic" in node.args)
        note = f"Paddock does not import {', '.join(unknown)}" if unknown else ""
        made.draft.note(node, "changed" if unknown else "mapped", note, made.where)
    if not nodes:
        made.block["listens"].append({"port": 80, "address": ""})
    everywhere = {node.name: node.value for node in (*made.http, *made.own) if node.name in ("ssl", "http2")}
    for item in made.block["listens"]:
        item["tls"] = item.get("tls", False) or everywhere.get("ssl") == "on"
        item["http2"] = item["tls"] and (item.get("http2", False) or everywhere.get("http2") == "on")


def _add_listen(listens: list[ListenData], found: ListenData, *, is_quic: bool) -> None:
    """Add `found` to `listens`, or merge it with the listen of its socket: for QUIC, nginx needs a second `listen`."""
    same = [item for item in listens if (item["address"], item["port"]) == (found["address"], found["port"])]
    target = same[0] if same else found
    if not same:
        listens.append(found)
    if is_quic:
        target |= {"http3": True, "tls": True}
    for name in LISTEN.values():
        target[name] = target.get(name, False) or found[name]


# --- single directives: return "" if mapped, "!note" if changed, other text as the reason to keep them raw ---


def _names(made: Server, node: Node) -> str:
    refused = []
    for name in node.args:
        if name in ("_", ""):
            continue
        try:
            made.block["names"].append(validators.server_name_normalized(name))
        except ValidationError:
            refused.append(name)
    made.block["names"] = list(dict.fromkeys(made.block["names"]))
    return f"!Paddock does not import the names {', '.join(refused)}" if refused else ""


def _root(made: Server, node: Node) -> str:
    path = posixpath.join(made.prefix, node.value)
    if why := fits(validators.validate_path, path):
        return why
    made.block["root"] = path
    return ""


def _index(made: Server, node: Node) -> str:
    if why := fits(shapes.validate_index, list(node.args)):
        return why
    made.block["index"] = list(node.args)
    return ""


def _known(values: Sequence[str]) -> bool:
    return not any(fits(lambda value: variables.parse(value, "/"), value) for value in values)


def _try_files(made: Server, node: Node) -> str:
    """Map try_files of a server: nginx applies it to paths without a location; a site does so in location /."""
    if why := fits(shapes.validate_try_files, list(node.args)):
        return why
    if not _known(node.args):
        return "the directive uses a variable that sites do not support"
    if any(item.name == "location" and item.args in (("/",), ("^~", "/")) for item in made.own):
        return "!this directive has no effect because location / handles all requests"
    made.block["try_files"] = list(node.args)
    return ""


def _autoindex(made: Server, node: Node) -> str:
    made.block["autoindex"] = node.value == "on"
    return ""


def _error_page(made: Server, node: Node) -> str:
    *codes, uri = node.args
    response = None
    if codes and codes[-1].startswith("="):
        answer = codes.pop()[1:]
        if not answer.isdigit():
            return "sites do not support this form of the directive"
        response = int(answer)
    if not codes or not all(code.isdigit() for code in codes):
        return "sites do not support this form of the directive"
    page: ErrorPageData = {"codes": [int(code) for code in codes], "uri": uri, "response": response}
    pages = [*made.block.get("error_pages", []), page]
    if why := fits(shapes.validate_error_pages, pages) or ("$" in uri and "the path contains a variable"):
        return why
    made.block["error_pages"] = pages
    return ""


def _header(made: Server, node: Node) -> str:
    if why := header_fits(node.args):
        return why
    if not _known(node.args[1:2]):
        return "the directive uses a variable that sites do not support"
    made.block.setdefault("headers", []).append(header_of(node.args))
    return ""


def _format(made: Server, args: Sequence[str]) -> str | None:
    """Return Paddock's log format that equals the format of an access_log; "" for combined, None if none is equal."""
    if args in ((), ("combined",)):
        return ""
    said = [item.args[1:] for item in made.http if item.name == "log_format" and item.args[:1] == tuple(args)]
    for ours, text in logformats.NGINX.items():
        escape = ("escape=json",) if ours == "json" else ()
        if said and (said[-1][: len(escape)], "".join(said[-1][len(escape) :])) == (escape, text):
            return ours
    return None


def _access_log(made: Server, node: Node) -> str:
    if node.value == "off":
        made.block["access_log"] = "off"
        return ""
    known = _format(made, node.args[1:])
    if known is None:
        return "sites do not support this log format"
    if why := _log(made, "access_log", node.value):
        return why
    made.block["access_log_format"] = known
    return ""


def _log(made: Server, name: Literal["access_log", "error_log"], path: str) -> str:
    if made.block.get(name):
        return "a site has one log of each kind"
    log_dir = made.draft.web_server.log_dir
    if why := fits(validators.validate_log_path, path):
        return why
    if log_dir and not is_below(path, (log_dir,)):
        return f"the log file is outside of {log_dir}"
    made.block[name] = path
    return ""


def _error_log(made: Server, node: Node) -> str:
    levels = ("debug", "info", "notice", "warn", "error", "crit")
    level = node.args[1] if len(node.args) > 1 else "error"
    if level not in levels:
        return "sites do not support this log level"
    if why := _log(made, "error_log", node.value):
        return why
    made.block["error_log_level"] = level
    return ""


def _gzip(made: Server, node: Node) -> str:
    if node.value == "on" and [item.value for item in made.inherits("gzip_vary")] != ["on"]:
        return "sites do not support this without gzip_vary"
    made.block["gzip"] = node.value
    return ""


def _vary(made: Server, node: Node) -> str:
    compresses = any(item.name == "gzip" and item.value == "on" for item in made.own)
    fits_model = node.value == "on" and compresses
    return "" if fits_model else "sites support gzip_vary only with gzip in the same server block"


def _gzip_types(made: Server, node: Node) -> str:
    if why := fits(shapes.validate_gzip_types, list(node.args)):
        return why
    made.block["gzip_types"] = list(node.args)
    return ""


def _body_size(made: Server, node: Node) -> str:
    size = megabytes(node.value)
    if size is None:
        return "sites support only sizes in whole megabytes"
    made.block["client_max_body_mb"] = size
    return ""


def _rewrite(made: Server, node: Node) -> str:
    found, why = rewrites_of(made.own)
    if not why:
        made.block["rewrites"] = found
    return why


def _brotli(made: Server, node: Node) -> str:
    """Map Brotli if the web server has ngx_brotli; sites compress the same media types with gzip and Brotli."""
    if not Dialect.of(made.draft.web_server).brotli:
        return "this web server does not seem to have the module ngx_brotli"
    ours, theirs = (
        {word for item in made.inherits(name) for word in item.args} for name in ("brotli_types", "gzip_types")
    )
    if node.value == "on" and ours != theirs:
        return "sites compress the same media types with gzip and with Brotli, but brotli_types and gzip_types differ"
    made.block["brotli"] = node.value
    return ""


def _brotli_types(made: Server, node: Node) -> str:
    same = any(item.name == "gzip_types" and set(item.args) == set(node.args) for item in made.own)
    if same and "brotli" in made.block:
        return ""
    return "sites support brotli_types only with the same media types as gzip_types, in the same server block"


def _header_buffers(made: Server, node: Node) -> str:
    """Map large_client_header_buffers to the largest header size; the panel always writes four buffers."""
    match = re.fullmatch(r"(\d{1,4})[kK]", node.args[1]) if len(node.args) == 2 else None
    if match is None or node.args[0] != "4" or not 1 <= int(match[1]) <= 1024:
        return "sites support only four buffers with a size in whole kilobytes"
    made.block["client_max_header_kb"] = int(match[1])
    return ""


def _return(made: Server, node: Node) -> None:
    """Map a `return` of a server to a location /. The server's locations are left out: `return` ends every request."""
    code, value = return_of(node)
    where = f"{made.where}/locations/0"
    row: LocationData = {"match": "", "pattern": "/"}
    made.block["locations"].append(row)
    is_redirect = value.startswith(("http://", "https://", "/", "$scheme://")) and code in REDIRECTS
    if code is None or not _known([value]) or (value and not is_redirect):
        why = "sites cannot send a text of this kind with the media type that nginx uses"
        made.draft.snippet(row, node, where, why)
        return
    row |= {"handler": "return", "return_code": code, "return_value": value}
    made.draft.note(node, "mapped", where=where)


def _own_tls(made: Server, node: Node) -> str:
    return "" if TLS_WORDS.get(node.name) == node.args else "!Paddock writes its own value"


def _certificate(made: Server) -> None:
    """Record the files of a server's first certificate; a server block cannot have two (RSA and ECDSA)."""
    found = {name: made.inherits(name) for name in ("ssl_certificate", "ssl_certificate_key")}
    if not any(item["tls"] for item in made.block["listens"]) or not all(found.values()):
        return
    # Paths are relative to the folder of nginx.conf (ngx_conf_full_name), in included files too.
    paths = [posixpath.join(made.draft.web_server.config_root, nodes[0].value) for nodes in found.values()]
    made.draft.certificates.append(CertificateFiles(len(made.draft.blocks) - 1, *paths))


def _certificate_line(made: Server, node: Node) -> str:
    first = next(item for item in made.own if item.name == node.name)
    return "" if node is first else "!a server block uses only the first certificate"


_TAKERS: dict[str, Callable[[Server, Node], str]] = {
    "server_name": _names,
    "root": _root,
    "index": _index,
    "try_files": _try_files,
    "autoindex": _autoindex,
    "error_page": _error_page,
    "add_header": _header,
    "access_log": _access_log,
    "error_log": _error_log,
    "gzip": _gzip,
    "gzip_vary": _vary,
    "gzip_types": _gzip_types,
    "client_max_body_size": _body_size,
    "rewrite": _rewrite,
    "brotli": _brotli,
    "brotli_types": _brotli_types,
    "large_client_header_buffers": _header_buffers,
    "ssl_prefer_server_ciphers": lambda made, node: "" if node.value == "off" else "Paddock turns this directive off",
    "ssl": lambda made, node: "",
    "http2": lambda made, node: "",
    "ssl_certificate": _certificate_line,
    "ssl_certificate_key": _certificate_line,
    **dict.fromkeys(OWN_TLS, _own_tls),
}
