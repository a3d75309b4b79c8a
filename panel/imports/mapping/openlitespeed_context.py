"""Map OpenLiteSpeed's contexts (path prefixes that are served, redirected or proxied) to locations. A context with a
setting that locations lack is kept as raw directives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from panel.imports.mapping.common import fits, slug
from panel.imports.nodes import Node
from panel.websites import shapes, validators
from panel.websites.definitions import AccessRuleData, HeaderData, LocationData, UpstreamData

if TYPE_CHECKING:
    from panel.imports.mapping.openlitespeed_host import Host

PLACELESS = "sites do not support this form of context"
_SET = re.compile(r"(?:Header\s+)?(?:always\s+)?set\s+(?P<name>[^\s:]+):?\s+(?P<value>.+)\Z", re.I)
_PLAIN = re.compile(r"(?P<name>[A-Za-z0-9-]+):\s*(?P<value>.+)\Z")
_MORE = ("extraheaders", "accesscontrol", "indexfiles", "autoindex", "enableexpires", "expiresdefault", "note")


def address_of(value: str) -> str:
    """Convert a socket or address of OpenLiteSpeed to the notation of sites."""
    bare = re.sub(r"^https?://", "", value)
    return f"unix:/{bare[5:].lstrip('/')}" if bare.lower().startswith(("uds:/", "unix:")) else bare


def context(made: Host, node: Node) -> str | None:
    """Map a context to a location if sites support all of its settings. Return "" if mapped, "!note" if only the
    context's note is lost, otherwise the reason to keep the context as raw directives.
    """
    values, uri = {item.name: item.value for item in node.body or ()}, node.value
    if fits(validators.validate_uri_path, uri) or not uri.endswith("/"):
        return "a context without a final slash does not match the same paths as a location of a site"
    kind = values.get("type", "static").lower()
    make = {"static": _static, "null": _static, "proxy": _proxy, "redirect": _redirect}.get(kind)
    plain = {name: value for name, value in values.items() if name not in _MORE}
    row = make(made, plain, uri) if make else None
    if row is None or any(known["pattern"] == uri for known in made.block["locations"]):
        return PLACELESS
    for item in node.body or ():
        if item.name in _MORE and (why := _more(row, item, values)):
            return why
    made.block["locations"].append({"match": "", "pattern": uri, **row})
    return "!Paddock does not import the context's note" if "note" in values else ""


def _static(made: Host, values: dict[str, str], uri: str) -> LocationData | None:
    if set(values) - {"type", "location", "allowbrowse"}:
        return None
    if values.get("allowbrowse") == "0":
        return {"handler": "deny"}
    here = f"{made.documents}{uri}"
    path = made.path(values.get("location") or here)
    path = path if path.startswith("/") else f"{made.documents}/{path}"
    if fits(validators.validate_path, path):
        return None
    # Files in the default folder need no alias.
    return {"handler": "static"} if path.rstrip("/") == here.rstrip("/") else {
        "handler": "static", "alias": path.rstrip("/") + "/",
    }  # fmt: skip


def _proxy(made: Host, values: dict[str, str], uri: str) -> LocationData | None:
    name = values.get("handler", "")
    app = made.apps.get(name, {})
    address = address_of(app.get("address", ""))
    if set(values) - {"type", "handler", "adddefaultcharset"} or app.get("type") != "proxy":
        return None
    if fits(validators.validate_upstream_address, address):
        return None
    made.used.add(name)
    row: UpstreamData = {"balancing": "round_robin", "keepalive": 16, "servers": [{"address": address}]}
    upstream = made.draft.named(made.draft.upstreams, slug(name, "upstream"), row)
    return {"handler": "proxy", "upstream": upstream, "upstream_tls": app["address"].startswith("https://")}


def _redirect(made: Host, values: dict[str, str], uri: str) -> LocationData | None:
    """Return a location's fields for a redirect of the context / to another site; None for other redirects. The
    location appends the request's path and query to the target.
    """
    code = values.get("statuscode", "301" if values.get("externalredirect") == "1" else "302")
    target = values.get("location", "")
    if uri != "/" or not code.isdigit() or int(code) not in validators.REDIRECTS:
        return None
    if not re.fullmatch(r"https?://[^$]+/", target):
        return None
    return {"handler": "return", "return_code": int(code), "return_value": target.rstrip("/") + "$request_uri"}


# --- settings of a location besides its handler: "" when mapped ---


def _more(row: LocationData, node: Node, values: dict[str, str]) -> str:
    if row["handler"] == "deny":
        return ""  # never sent, so ignored
    return _SETTINGS[node.name](row, node, values)


def _headers(row: LocationData, node: Node, values: dict[str, str]) -> str:
    found: list[HeaderData] = []
    for line in filter(None, map(str.strip, node.value.split("\n"))):
        match = _SET.match(line) or _PLAIN.match(line)
        value = _unquoted(match["value"]) if match else ""
        if match is None or not value or set("%$") & set(value):
            return "sites support only the action set, with a fixed value"
        found.append({"name": match["name"], "value": value, "always": True})
    if why := fits(shapes.validate_headers, found):
        return why
    row["headers"] = found
    return ""


def _unquoted(text: str) -> str:
    """Return a header's value without quotes. "" if the value has syntax that a site cannot express: a final `early` or
    `env=NAME`, or text after the closing quote.
    """
    if re.search(r"(?:^|\s)(?:env=\S*|early)\Z", text, re.I):
        return ""
    if text[0] not in "\"'":
        return text
    inner, end, rest = text[1:].partition(text[0])
    return inner if end and not rest else ""


def _access(row: LocationData, node: Node, values: dict[str, str]) -> str:
    """Map a context's access control that allows some addresses and denies all others, or the reverse. In these two
    cases the order of rules does not matter. Return "" if mapped, otherwise the reason.
    """
    said = {item.name: [word.strip() for word in re.split(r"[,\s]+", item.value) if word] for item in node.body or ()}
    allowed, denied = said.get("allow", []), said.get("deny", [])
    everybody = {"*", "ALL", "all"}
    if set(denied) & everybody and allowed and not set(allowed) & everybody:
        rules = [("allow", word) for word in allowed] + [("deny", "all")]
    elif denied and not set(denied) & everybody and set(allowed) <= everybody:
        rules = [("deny", word) for word in denied] + [("allow", "all")]
    else:
        return PLACELESS
    found: list[AccessRuleData] = [{"action": action, "source": source} for action, source in rules]
    if why := next(filter(None, (fits(validators.validate_access_source, rule["source"]) for rule in found)), ""):
        return why
    row["access_rules"] = found
    return ""


def _index(row: LocationData, node: Node, values: dict[str, str]) -> str:
    names = [name.strip() for name in node.value.split(",") if name.strip()]
    row["index"] = names
    return PLACELESS if row["handler"] != "static" else fits(shapes.validate_index, names)


def _autoindex(row: LocationData, node: Node, values: dict[str, str]) -> str:
    row["autoindex"] = node.value == "1"
    return PLACELESS if row["handler"] != "static" else ""


def _expires(row: LocationData, node: Node, values: dict[str, str]) -> str:
    match = re.fullmatch(r"([AM])(\d+)", values.get("expiresdefault", ""))
    if values.get("enableexpires") == "0":
        row["expires"] = "off"
        return ""
    if match is None or values.get("enableexpires") != "1":
        return PLACELESS
    value = f"{'modified ' if match[1] == 'M' else ''}{match[2]}s"
    row["expires"] = value
    return fits(validators.validate_expires, value)


_SETTINGS: dict[str, Callable[[LocationData, Node, dict[str, str]], str]] = {
    "extraheaders": _headers,
    "accesscontrol": _access,
    "indexfiles": _index,
    "autoindex": _autoindex,
    "enableexpires": _expires,
    "expiresdefault": _expires,
    "note": lambda row, node, values: "",
}
