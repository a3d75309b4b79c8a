"""Map a complete OpenLiteSpeed configuration: virtual hosts become sites, and the listeners that map a virtual host
become the addresses and ports of its site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from panel.imports import litespeed
from panel.imports.htaccess import HTACCESS
from panel.imports.mapping.common import Draft, fits, free_name, make_site, printed, slug
from panel.imports.mapping.openlitespeed_host import Host, fill
from panel.imports.nodes import Loaded, Node
from panel.imports.report import CertificateFiles, Item, Part, Report, shown
from panel.rendering.roots import is_below
from panel.rendering.spec import WebServerSpec
from panel.websites import validators

KEPT = "the directive is not part of a site; it stays in the web server's own files"
LISTENS = (
    "the listener stays in the web server's own files; Paddock's files add maps of the adopted sites to the listener"
)
TEMPLATE = "the template stays in the web server's own files; each member of the template becomes a site"
HTTP2, HTTP3 = 4, 8  # bits of enableSpdy, which enables both by default
NO_LISTENERS = "no listener maps this virtual host, so it receives no requests"


def mapped(loaded: Loaded, web_server: WebServerSpec, prefix: str) -> Report:
    report = Report("openlitespeed", faults=list(loaded.faults), files=len(loaded.files))
    panels = f"{web_server.config_root}/paddock.conf"
    own = [node for node in loaded.nodes if node.file != panels]
    listeners = [node for node in own if node.name == "listener"]
    report.listeners = [row for row in map(_own_listener, listeners) if row]
    taken: set[str] = set()
    for node in loaded.nodes:
        if node.name != "virtualhost" or node.body is None:
            report.items.append(Item(node.file, node.line, shown(node), "kept", _kept(node)))
            continue
        draft = Draft(web_server)
        _host(draft, node, loaded.nodes, listeners, prefix)
        name = free_name(slug(node.value), taken)
        taken.add(name)
        site = make_site(draft, name)
        site.parts = [part for part in _parts(node, listeners, loaded, web_server) if part.file != panels]
        report.sites.append(site)
    return report


def _kept(node: Node) -> str:
    return {"vhtemplate": TEMPLATE, "listener": LISTENS}.get(node.name, KEPT)


def _parts(node: Node, listeners: Sequence[Node], loaded: Loaded, web_server: WebServerSpec) -> Iterator[Part]:
    """Yield the lines that define a virtual host: its block, its maps in listeners, and its own file if this file is
    below the configuration folder.
    """
    yield Part(node.file, node.line, node.end)
    for listener in listeners:
        for item in listener.body or ():
            if item.name == "map" and item.value.replace("\t", " ").partition(" ")[0] == node.value:
                yield Part(item.file, item.line, item.end)
    if not litespeed.says(node.body or (), "configfile"):
        return
    for path in dict.fromkeys(item.file for item in node.body or () if item.name != HTACCESS):
        file = loaded.files.get(path)
        if file is not None and path != node.file and is_below(file.real or path, (web_server.config_root,)):
            yield Part(path, 1, file.text.count("\n") + 1)


def _own_listener(node: Node) -> dict[str, Any] | None:
    """Return a listener in the server's own files as a dict with the fields of OwnListener, so that sites can use the
    listener. None if the listener's name or address is not supported.
    """
    found = _socket(node)
    if found is None or set("\n{}") & set(node.value) or not node.value:
        return None
    rest = [printed(item, "openlitespeed") for item in node.body or () if item.name != "map"]
    address, port, secure = found
    return {"name": node.value, "address": address, "port": port, "secure": secure, "text": "\n".join(rest)}


def _socket(listener: Node) -> tuple[str, int, bool] | None:
    """Return (address in the notation of sites, port, whether it uses TLS) of a listener; None for other addresses."""
    body = listener.body or ()
    address, _, port = litespeed.says(body, "address").rpartition(":")
    address = {"*": "", "[ANY]": "::"}.get(address.upper(), address.strip("[]"))
    if not port.isdigit() or (address and fits(validators.validate_listen_address, address)):
        return None
    return address, int(port), litespeed.says(body, "secure") == "1"


def _host(draft: Draft, node: Node, around: Sequence[Node], listeners: Sequence[Node], prefix: str) -> None:
    made = Host(draft, node, around, prefix)
    draft.blocks.append(made.block)
    draft.note(node, "mapped", where=made.where)
    for listener in listeners:
        if names := _names(made, listener):
            _listener(made, listener, names)
    if not made.block["listens"]:
        draft.note(node, "refused", NO_LISTENERS, made.where)
    fill(made)


def _names(made: Host, listener: Node) -> list[str]:
    """Return the domain names for which a listener selects a virtual host, from the listener's maps and from the
    virtual host or its template.
    """
    names: list[str] = []
    for item in listener.body or ():
        name, _, domains = item.value.replace("\t", " ").partition(" ") if item.name == "map" else ("", "", "")
        if name == made.node.value and not made.value("member"):
            names += domains.split(",")
    if listener.value in [name.strip() for name in made.value("listeners").split(",")]:
        names += [*made.value("vhdomain").split(","), *made.value("vhaliases").split(",")]
    plain = (name.strip().removesuffix(".") for name in names)  # listed also with the dot that may end a host
    return [name for name in dict.fromkeys(plain) if name]


def _listener(made: Host, listener: Node, names: Sequence[str]) -> None:
    socket = _socket(listener)
    if socket is None:
        made.draft.note(listener, "refused", "sites do not support this listen address", made.where)
        return
    address, port, tls = socket
    body, own = listener.body or (), made.inside("vhssl")
    spdy = litespeed.says(own, "enablespdy") or litespeed.says(body, "enablespdy")
    protocols = int(spdy) if spdy.isdigit() else HTTP2 | HTTP3
    quic = {litespeed.says(where, "enablequic") for where in (own, body)}
    made.block["listens"].append(
        {
            "port": port,
            "address": address,
            "tls": tls,
            "http2": tls and bool(protocols & HTTP2),
            "http3": tls and bool(protocols & HTTP3) and "0" not in quic and made.server("quicenable", "tuning") != "0",
            "default_server": "*" in names,
        }
    )
    for name in names:
        made.add_name(name)
    if tls and litespeed.says(body, "certfile") and not made.draft.certificates:
        files = (litespeed.says(body, "certfile"), litespeed.says(body, "keyfile"))
        made.draft.certificates.append(CertificateFiles(0, *map(made.path, files)))
