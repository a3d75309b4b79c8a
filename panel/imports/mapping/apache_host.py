"""Map one Apache `<VirtualHost>` to a server block of a site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from django.core.exceptions import ValidationError

from panel.imports import htaccess
from panel.imports.mapping import (
    apache_cache,
    apache_cgi,
    apache_expires,
    apache_folders,
    apache_htaccess,
    apache_proxy,
)
from panel.imports.mapping import apache_handlers as handlers
from panel.imports.mapping.apache_made import Host
from panel.imports.mapping.common import Draft, fits
from panel.imports.reading import Node
from panel.imports.report import CertificateFiles
from panel.rendering import logformats
from panel.rendering.roots import is_below
from panel.websites import shapes, validators
from panel.websites.definitions import ErrorPageData, HeaderData, ListenData

TLS_ON = ("on", "optional")
LEVELS = {"debug": "debug", "info": "info", "notice": "notice", "warn": "warn", "error": "error", "crit": "crit"}
OWN = ("sslprotocol", "allowencodedslashes", "sslproxyengine")
NOBODY = ("webmaster@localhost", "you@example.com", "root@localhost", "admin@localhost", "admin@example.com")
TLS_FILES = ("sslcertificatefile", "sslcertificatekeyfile", "sslcertificatechainfile")


def host(
    draft: Draft,
    node: Node,
    own: tuple[Node, ...],
    around: Sequence[Node],
    prefix: str,
    first: set[str],
    closed: Sequence[str] = (),
) -> None:
    """Map an Apache virtual host to a server block, and add the block to the site in `draft`.

    `own`: the directives inside of the virtual host. `around`: the directives outside of all virtual hosts. `first`:
    addresses of earlier virtual hosts; needed because the first virtual host of an address is its default. `closed`:
    files and folders that could not be read.
    """
    made = Host(draft, node, own, prefix, around)
    made.closed = closed
    draft.blocks.append(made.block)
    _listens(made, first)
    _index(made, around)
    for said in sorted(own, key=_turn):
        if said.name == htaccess.HTACCESS:
            apache_htaccess.take(made, said)
        elif said.name != htaccess.READ:
            _take(made, said)
    _certificate(made)


def _take(made: Host, said: Node) -> None:
    """Map one directive of a virtual host, and record its outcome in `made.draft`."""
    draft = made.draft
    left, lost = apache_cgi.without(said)
    for gone, reason in lost:
        draft.note(gone, "refused", reason, made.where)
    if left is None:
        return
    item = apache_expires.section(made, left) if apache_expires.says(left) else left
    if item is None:
        return
    take = _TAKERS.get(item.low)
    why = take(made, item) if take else None
    if why == "":
        draft.note(item, "mapped", where=made.where)
    elif why is not None and why.startswith("!"):
        draft.note(item, "changed", why[1:], made.where)
    elif why is not None and why.startswith("-"):
        draft.note(item, "refused", why[1:], made.where)
    else:
        draft.snippet(made.block, _without_override(made, item), made.where, why or "")


def _turn(item: Node) -> int:
    """Return the sort key of a directive for the mapping: 0 for directives that do not need locations, 1 for those that
    need the locations of others, 2 for .htaccess files.
    """
    if item.name == htaccess.HTACCESS:
        return 2
    asks = item.low in (*apache_cache.WORDS, "directory", *apache_htaccess.RULES) or apache_expires.says(item)
    return int(asks)


def _without_override(made: Host, node: Node) -> Node:
    """Return a directive without any `AllowOverride None` in its body, because the panel writes this line itself. Other
    values of AllowOverride are removed only from a `<Directory>` whose .htaccess files were read.
    """
    if node.body is None:
        return node
    covered = node.low == "directory" and apache_htaccess.are_read(made, made.path(node.value))
    kept = [item for item in node.body if item.low != "allowoverride" or not (covered or item.value.lower() == "none")]
    return replace(node, body=tuple(_without_override(made, item) for item in kept))


def _listens(made: Host, first: set[str]) -> None:
    tls = any(value.lower() in TLS_ON for value in made.values("sslengine"))
    protocols = [word for node in made.own if node.low == "protocols" for word in node.args]
    refused = []
    for value in made.node.args:
        address, _, port = value.rpartition(":")
        address = {"*": "", "_default_": ""}.get(address, address.strip("[]"))
        if not port.isdigit() or (address and fits(validators.validate_listen_address, address)):
            refused.append(value)
            continue
        http2 = tls and "h2" in protocols
        listen: ListenData = {
            "port": int(port),
            "address": address,
            "tls": tls,
            "http2": http2,
            "default_server": value not in first,
        }
        first.add(value)
        made.block["listens"].append(listen)
    note = f"sites do not support these addresses: {', '.join(refused)}" if refused else ""
    made.draft.note(made.node, "refused" if refused else "mapped", note, made.where)


def _index(made: Host, around: Sequence[Node]) -> None:
    """Set the index files that a virtual host inherits, because the panel always writes DirectoryIndex."""
    if made.values("directoryindex"):
        return
    outside = [node for node in around if node.low == "directoryindex"]
    names = list(outside[-1].args) if outside else ["index.html"]
    names = [name for name in dict.fromkeys(names) if not fits(shapes.validate_index, [name])]
    made.block["index"] = names


def _certificate(made: Host) -> None:
    found = [made.values(name)[:1] for name in TLS_FILES]
    if any(item["tls"] for item in made.block["listens"]) and found[0]:
        certificate, key, chain = (made.path(values[0]) if values else "" for values in found)
        number = len(made.draft.blocks) - 1
        made.draft.certificates.append(CertificateFiles(number, certificate, key or certificate, chain))


# --- single directives; results as in apache_handlers ---


def _names(made: Host, node: Node) -> str | None:
    if node.low == "servername":
        name = node.value.partition("://")[2] or node.value
        values: Sequence[str] = [name.partition(":")[0]]
    else:
        values = node.args
    refused = []
    for value in values:
        try:
            name = validators.server_name_normalized(value)
        except ValidationError:
            refused.append(value)
            continue
        if name not in made.block["names"]:
            made.block["names"].append(name)
    return f"-sites do not support these names: {', '.join(refused)}" if refused else ""


def _root(made: Host, node: Node) -> str | None:
    path = made.path(node.value)
    if why := fits(validators.validate_path, path):
        return f"-{why}"
    made.block["root"] = path
    return ""


def _directory_index(made: Host, node: Node) -> str | None:
    names = [name for name in node.args if name != "disabled"]
    if why := fits(shapes.validate_index, names):
        return why
    made.block["index"] = names
    return ""


def _error_document(made: Host, node: Node) -> str | None:
    if len(node.args) != 2 or not node.value.isdigit():
        return "sites do not support this form of the directive"
    page: ErrorPageData = {"codes": [int(node.value)], "uri": node.args[1], "response": None}
    pages = [*made.block.get("error_pages", []), page]
    if fits(shapes.validate_error_pages, pages) or "%" in node.args[1]:
        return "sites do not support this form of the directive"
    made.block["error_pages"] = pages
    return ""


def _log(made: Host, name: Literal["access_log", "error_log"], value: str) -> str | None:
    path = made.path(value)
    if made.block.get(name):
        return "a site has one log of each kind"
    if why := fits(validators.validate_log_path, path):
        return why
    log_dir = made.draft.web_server.log_dir
    if log_dir and not is_below(path, (log_dir,)):
        return f"the log file is outside of {log_dir}"
    made.block[name] = path
    return ""


def _custom_log(made: Host, node: Node) -> str | None:
    known = _format(made, node.args[1:])
    if known is None:
        return "sites do not support this log format"
    if why := _log(made, "access_log", node.value):
        return why
    made.block["access_log_format"] = known
    return ""


def _format(made: Host, args: Sequence[str]) -> str | None:
    """Return the name of Paddock's log format that equals the format of a CustomLog; "" for the format combined, None
    if no log format is equal. `args` has the text of the format, or the name that a LogFormat defines.
    """
    if len(args) != 1:
        return None
    said = [
        item.args[0] for item in (*made.around, *made.own) if item.low == "logformat" and item.args[1:] == tuple(args)
    ]
    if args[0] == "combined":  # defined in every distribution's main file, and used by the panel
        return ""
    text = said[-1] if said else args[0]
    return next((ours for ours, theirs in logformats.APACHE.items() if text == theirs), None)


def _error_log(made: Host, node: Node) -> str | None:
    made.block["error_log_level"] = next(
        (LEVELS[v.lower()] for v in made.values("loglevel") if v.lower() in LEVELS), "warn"
    )
    return _log(made, "error_log", node.value)


def _log_level(made: Host, node: Node) -> str | None:
    is_plain = len(node.args) == 1 and node.value.lower() in LEVELS
    return "" if is_plain and made.values("errorlog") else "sites do not support log levels per module"


def _header(made: Host, node: Node) -> str | None:
    args = [value for value in node.args if value.lower() not in ("onsuccess", "always")]
    always = any(value.lower() == "always" for value in node.args[:1])
    if len(args) != 3 or args[0].lower() != "set" or "%" in args[2] or args[2].startswith("expr="):
        return "sites support only the action set, with a fixed value"
    row: HeaderData = {"name": args[1].rstrip(":"), "value": args[2], "always": always}
    if fits(shapes.validate_headers, [row]) or "$" in args[2]:
        return "sites do not support this header value"
    made.block.setdefault("headers", []).append(row)
    return ""


def _tls_file(made: Host, node: Node) -> str | None:
    first = next(item for item in made.own if item.low == node.low)
    return "" if node is first else "!a server block uses only the first certificate"


def _admin(made: Host, node: Node) -> str | None:
    """Drop a ServerAdmin with a default address of Debian or Apache, with a note; keep any other address as a raw
    directive.
    """
    return f"!Apache's error pages no longer contain {node.value}" if node.value.lower() in NOBODY else None


def _compressed(made: Host, node: Node) -> str | None:
    """Map AddOutputFilterByType DEFLATE to gzip; sites always compress text/html too."""
    kinds = [item.args for item in made.own if item.low == node.low]
    types = list(dict.fromkeys(kind for args in kinds for kind in args[1:]))
    others = {"browsermatch", "browsermatchnocase", "setoutputfilter"} & {item.low for item in made.own}
    if others or any(args[:1] != ("DEFLATE",) for args in kinds) or "text/html" not in types:
        return "sites always compress text/html, and support only the filter DEFLATE"
    kept = [kind for kind in types if kind != "text/html"]
    if why := fits(shapes.validate_gzip_types, kept):
        return why
    made.block |= {"gzip": "on", "gzip_types": kept}
    return ""


_TAKERS: dict[str, Callable[[Host, Node], str | None]] = {
    "servername": _names,
    "serveralias": _names,
    "documentroot": _root,
    "directoryindex": _directory_index,
    "directory": apache_folders.directory,
    "errordocument": _error_document,
    "customlog": _custom_log,
    "errorlog": _error_log,
    "loglevel": _log_level,
    "header": _header,
    "alias": handlers.alias,
    "redirect": handlers.redirect,
    "redirectpermanent": handlers.redirect,
    "redirecttemp": handlers.redirect,
    "redirectmatch": handlers.redirect,
    "rewriteengine": handlers.rewrite,
    "rewriterule": handlers.rewrite,
    "rewritecond": handlers.rewrite,
    "proxypass": apache_proxy.proxy_pass,
    "location": apache_proxy.location,
    "proxyrequests": apache_proxy.off_only,
    "usecanonicalname": apache_proxy.off_only,
    "hostnamelookups": apache_proxy.off_only,
    "requestheader": apache_proxy.request_header,
    "serveradmin": _admin,
    "addoutputfilterbytype": _compressed,
    "proxypreservehost": apache_proxy.preserve_host,
    "proxyaddheaders": apache_proxy.add_headers,
    "filesmatch": handlers.files_match,
    **dict.fromkeys(apache_cache.WORDS, apache_cache.taken),
    **dict.fromkeys(apache_expires.WORDS, apache_expires.taken),
    "protocols": lambda made, node: "",
    "sslengine": lambda made, node: "",
    **dict.fromkeys(TLS_FILES, _tls_file),
    **dict.fromkeys(OWN, lambda made, node: "!Paddock writes its own value"),
}
