"""A whole OpenLiteSpeed configuration: its virtual hosts become sites with the listeners that map them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.core.exceptions import ValidationError

from panel.imports.mapping.common import Draft, fits, free_name, make_site, slug
from panel.imports.reading import Loaded, Node
from panel.imports.report import CertificateFiles, Item, Part, Report, shown
from panel.rendering.roots import is_below
from panel.rendering.spec import InstallSpec
from panel.websites import shapes, validators

KEPT = "is not part of a site; it stays in the server's own files and goes on working"
HANDLES = ("vhroot", "configfile", "enablescript", "restrained", "setuidmode", "allowsymbollink", "listeners")
TEMPLATES = "virtual hosts of a template are not read; write one of its own for each site"


class Host:
    """A virtual host in the making."""

    def __init__(self, draft: Draft, node: Node, around: Sequence[Node], prefix: str) -> None:
        self.draft = draft
        self.node = node
        self.own = tuple(node.body or ())
        self.prefix = prefix
        self.where = "blocks/0"
        self.block: dict[str, Any] = {"listens": [], "names": [], "locations": []}
        apps = [item for item in (*around, *self.own) if item.name == "extprocessor"]
        self.apps = {item.value: {child.name: child.value for child in item.body or ()} for item in apps}
        self.root = self.path(self.value("vhroot"))

    def value(self, name: str) -> str:
        return next((item.value for item in self.own if item.name == name), "")

    def path(self, value: str) -> str:
        names = {"$SERVER_ROOT": self.prefix, "$VH_NAME": self.node.value, "$VH_ROOT": getattr(self, "root", "")}
        names["$DOC_ROOT"] = self.block.get("root", "")
        for name, real in names.items():
            value = re.sub(re.escape(name), real.rstrip("/").replace("\\", r"\\"), value, flags=re.I)
        return re.sub(r"/{2,}", "/", value)


def mapped(loaded: Loaded, install: InstallSpec, prefix: str) -> Report:
    report = Report("openlitespeed", faults=list(loaded.faults), files=len(loaded.files))
    listeners = [node for node in loaded.nodes if node.name == "listener"]
    taken: set[str] = set()
    for node in loaded.nodes:
        if node.name != "virtualhost" or node.body is None:
            note = TEMPLATES if node.name == "vhtemplate" else KEPT
            report.items.append(Item(node.file, node.line, shown(node), "kept", note))
            continue
        draft = Draft(install)
        _host(draft, node, loaded.nodes, listeners, prefix)
        name = free_name(slug(node.value), taken)
        taken.add(name)
        site = make_site(draft, name)
        site.parts = [Part(node.file, node.line, node.end), *_maps(node, listeners)]
        report.sites.append(site)
    return report


def _maps(node: Node, listeners: Sequence[Node]) -> Iterator[Part]:
    for listener in listeners:
        for item in listener.body or ():
            if item.name == "map" and item.value.split(None, 1)[:1] == [node.value]:
                yield Part(item.file, item.line, item.end)


def _host(draft: Draft, node: Node, around: Sequence[Node], listeners: Sequence[Node], prefix: str) -> None:
    made = Host(draft, node, around, prefix)
    draft.blocks.append(made.block)
    draft.note(node, "mapped", where=made.where)
    for listener in listeners:
        _listener(made, listener)
    for item in made.own:
        if item.name in HANDLES:
            same = item.name in ("vhroot", "configfile")
            draft.note(item, "mapped" if same else "changed", "" if same else "the panel writes its own", made.where)
            continue
        take = _TAKERS.get(item.name)
        why = take(made, item) if take else None
        if why == "":
            draft.note(item, "mapped", where=made.where)
        elif why is not None and why.startswith("!"):
            draft.note(item, "changed", why[1:], made.where)
        else:
            draft.snippet(made.block, item, made.where, why or "")


def _listener(made: Host, listener: Node) -> None:
    """The socket and the names by which a listener leads here."""
    values = {item.name: item.value for item in listener.body or ()}
    names: list[str] = []
    for item in listener.body or ():
        name, _, domains = item.value.partition(" ") if item.name == "map" else ("", "", "")
        if name == made.node.value:
            names += [domain.strip() for domain in domains.split(",") if domain.strip()]
    if not names:
        return
    address, _, port = values.get("address", "").rpartition(":")
    address = {"*": "", "[ANY]": "::"}.get(address, address.strip("[]"))
    if not port.isdigit() or (address and fits(validators.validate_listen_address, address)):
        made.draft.note(listener, "refused", "the model has no such listen", made.where)
        return
    tls = values.get("secure") == "1"
    spdy = int(values["enablespdy"]) if values.get("enablespdy", "").isdigit() else 12
    listen = {"port": int(port), "address": address, "tls": tls, "http2": tls and bool(spdy & 4)}
    listen["http3"] = tls and bool(spdy & 8) and values.get("enablequic") == "1"
    listen["default_server"] = "*" in names
    made.block["listens"].append(listen)
    for name in names:
        _add_name(made, name)
    if tls and values.get("certfile") and not made.draft.certificates:
        made.draft.certificates.append(
            CertificateFiles(0, made.path(values["certfile"]), made.path(values.get("keyfile", "")))
        )


def _add_name(made: Host, name: str) -> None:
    if name == "*":
        return
    try:
        normal = validators.server_name_normalized(name)
    except ValidationError as error:
        made.draft.note(made.node, "refused", f"{name}: {' '.join(error.messages)}", made.where)
        return
    if normal not in made.block["names"]:
        made.block["names"].append(normal)


def _inside(node: Node) -> dict[str, str]:
    return {item.name: item.value for item in node.body or ()}


def _root(made: Host, node: Node) -> str:
    path = made.path(node.value)
    path = path if path.startswith("/") else f"{made.root.rstrip('/')}/{path}"
    if why := fits(validators.validate_path, path):
        return why
    made.block["root"] = path
    return ""


def _domains(made: Host, node: Node) -> str:
    for name in node.value.split(","):
        if name.strip() and not name.strip().startswith("$"):
            _add_name(made, name.strip())
    return ""


def _index(made: Host, node: Node) -> str:
    values = _inside(node)
    names = [name.strip() for name in values.get("indexfiles", "index.html").split(",") if name.strip()]
    if why := fits(shapes.validate_index, names):
        return why
    made.block["index"] = names
    made.block["autoindex"] = values.get("autoindex") == "1"
    return "" if values.get("useserver", "0") == "0" else "!the server's own index files are not added"


def _error_page(made: Host, node: Node) -> str:
    uri = _inside(node).get("url", "")
    if not node.value.isdigit():
        return "this form has no place in the model"
    page = {"codes": [int(node.value)], "uri": uri, "response": None}
    pages = [*made.block.get("error_pages", []), page]
    if why := fits(shapes.validate_error_pages, pages):
        return why
    made.block["error_pages"] = pages
    return ""


def _log(made: Host, node: Node) -> str:
    name = "access_log" if node.name == "accesslog" else "error_log"
    path, log_dir = made.path(node.value), made.draft.install.log_dir
    if _inside(node).get("useserver") == "1":
        return ""
    if why := fits(validators.validate_log_path, path):
        return why
    if log_dir and not is_below(path, (log_dir,)):
        return f"it lies outside {log_dir}"
    made.block[name] = path
    return "!rotation is the panel's own" if set(_inside(node)) - {"useserver", "loglevel"} else ""


def _tls(made: Host, node: Node) -> str:
    values = _inside(node)
    if values.get("certfile") and values.get("keyfile"):
        files = CertificateFiles(0, made.path(values["certfile"]), made.path(values["keyfile"]))
        made.draft.certificates[:] = [files]
    return "!the panel writes its own" if set(values) - {"certfile", "keyfile", "certchain"} else ""


def _application(made: Host, node: Node) -> str | None:
    """It is written again with whatever location uses it."""
    return "" if _inside(node).get("type") in ("proxy", "fcgi", "lsapi") else None


def _address(value: str) -> str:
    """A socket or address as the model spells it."""
    bare = re.sub(r"^https?://", "", value)
    return f"unix:/{bare[5:].lstrip('/')}" if bare.lower().startswith(("uds:/", "unix:")) else bare


def _scripts(made: Host, node: Node) -> str | None:
    """PHP by its suffix, run by a pool that is already there."""
    words = [item.value.split() for item in node.body or () if item.name == "add"]
    if len(words) != 1 or len(words[0]) != 2 or words[0][1] != "php" or ":" not in words[0][0]:
        return None
    app = made.apps.get(words[0][0].split(":", 1)[1], {})
    address = _address(app.get("address", ""))
    if app.get("type") != "fcgi" or fits(validators.validate_upstream_address, address):
        return None
    pool = made.draft.named(made.draft.php_pools, "php", {"address": address, "settings": {}})
    made.block["locations"].append({"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": pool})
    return ""


def _context(made: Host, node: Node) -> str | None:
    """A prefix that is served, redirected or passed on; its other settings keep it raw."""
    values, uri = _inside(node), node.value
    if fits(validators.validate_uri_path, uri) or not uri.endswith("/"):
        return "only prefixes that end in a slash have the same meaning in the model"
    make = {"static": _static, "null": _static, "proxy": _proxy, "redirect": _redirect}.get(
        values.get("type", "static")
    )
    row = make(made, values, uri) if make else None
    if row is None or any(known["pattern"] == uri for known in made.block["locations"]):
        return "this form has no place in the model"
    made.block["locations"].append({"match": "", "pattern": uri, **row})
    return ""


def _static(made: Host, values: dict[str, str], uri: str) -> dict[str, Any] | None:
    if set(values) - {"type", "location", "allowbrowse"}:
        return None
    if values.get("allowbrowse") == "0":
        return {"handler": "deny"}
    path = made.path(values.get("location", f"$DOC_ROOT{uri}"))
    if fits(validators.validate_path, path):
        return None
    return {"handler": "static", "alias": path.rstrip("/") + "/"}


def _proxy(made: Host, values: dict[str, str], uri: str) -> dict[str, Any] | None:
    app = made.apps.get(values.get("handler", ""), {})
    address = _address(app.get("address", ""))
    if set(values) - {"type", "handler", "adddefaultcharset"} or app.get("type") != "proxy":
        return None
    if fits(validators.validate_upstream_address, address):
        return None
    row = {"balancing": "round_robin", "keepalive": 16, "servers": [{"address": address}]}
    name = made.draft.named(made.draft.upstreams, slug(values["handler"], "upstream"), row)
    return {"handler": "proxy", "upstream": name, "upstream_tls": app["address"].startswith("https://")}


def _redirect(made: Host, values: dict[str, str], uri: str) -> dict[str, Any] | None:
    """Everything below the root to another site: the rest of the path is appended."""
    code = values.get("statuscode", "301" if values.get("externalredirect") == "1" else "302")
    target = values.get("location", "")
    if uri != "/" or not code.isdigit() or int(code) not in validators.REDIRECTS:
        return None
    if not re.fullmatch(r"https?://[^$]+/", target):
        return None
    return {"handler": "return", "return_code": int(code), "return_value": target.rstrip("/") + "$request_uri"}


_TAKERS: dict[str, Callable[[Host, Node], str | None]] = {
    "docroot": _root,
    "vhdomain": _domains,
    "vhaliases": _domains,
    "index": _index,
    "errorpage": _error_page,
    "accesslog": _log,
    "errorlog": _log,
    "vhssl": _tls,
    "extprocessor": _application,
    "scripthandler": _scripts,
    "context": _context,
}
