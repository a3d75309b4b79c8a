"""Map ProxyPass and related directives to locations of a site.

`ProxyPass /a http://b/c` matches whole segments: /a and everything below /a/ (alias_match in mod_proxy.c), which are
two locations of the site. The docstring of apache_handlers explains the return values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from panel.imports.mapping import apache_rewrites
from panel.imports.mapping.apache_made import Host
from panel.imports.mapping.common import fits, slug, whole_seconds
from panel.imports.reading import Node
from panel.rendering.headers import passed_on
from panel.rendering.spec import UpstreamServer
from panel.websites import validators
from panel.websites.definitions import HeaderData, LocationData, ServerData, UpstreamData

TARGET = re.compile(r"(?P<scheme>https?|wss?)://(?P<server>[^/:]+|\[[^\]]+\])(?::(?P<port>\d+))?(?P<uri>/.*)?\Z")
SECURE = ("https", "wss")
SLASHES = (
    "-without a final slash on both sides, ProxyPass does not match the same paths as a location; add both slashes"
)
_UPGRADE = {"%{HTTP:UPGRADE}": ("websocket", "=websocket", "^websocket$"), "%{HTTP:CONNECTION}": None}
_WHOLE = re.compile(r"(?:/\$1|\$1|%\{REQUEST_URI\})\Z")
_HARMLESS = ("require", "order", "allow", "proxypassreverse", "proxypreservehost")


def proxy_pass(made: Host, node: Node) -> str | None:
    if len(node.args) < 2:
        return None
    return passed(made, node.args[0], node.args[1], node.args[2:])


def passed(made: Host, path: str, url: str, words: tuple[str, ...], inside: Sequence[Node] = ()) -> str | None:
    """Map a ProxyPass of `path` to `url`: to one location, or to two if `path` has no final slash. `words` are its
    parameters, such as `timeout=5`; `inside` are the directives of the section around it, if any.
    """
    if url == "!" and any(_led(item) == f"{path.rstrip('/')}/" for item in made.own if item.low == "alias"):
        return ""  # that folder's location handles its requests itself
    if url == "!" and path.startswith("/") and path != "/":
        patterns = [path] if path.endswith("/") else [path, f"{path}/"]
        wrong = [made.add({"match": "" if each.endswith("/") else "=", "pattern": each}) for each in patterns]
        return f"-{wrong[0]}" if any(wrong) else ""
    match = TARGET.match(url)
    if match is None or not path.startswith("/"):
        return None
    uri = match["uri"] or ""
    if path.endswith("/") and not uri.endswith("/"):
        return SLASHES
    port = match["port"] or ("443" if match["scheme"] in SECURE else "80")
    address = f"{match['server']}:{port}"
    if why := fits(validators.validate_upstream_address, address):
        return f"-{why}"
    row, servers, rest = _parameters(words)
    row |= {"handler": "proxy", "upstream_tls": match["scheme"] in SECURE}
    if match["scheme"].startswith("ws") or address in websockets(made)[1]:
        row["websocket"] = True
    server: ServerData = {"address": address, **servers}
    upstream: UpstreamData = {"balancing": "round_robin", "keepalive": 16, "servers": [server]}
    row["upstream"] = made.draft.named(made.draft.upstreams, slug(match["server"], "upstream"), upstream)
    row["request_headers"] = _request_headers(made, match, inside)
    for pattern, own in _places(path, uri):
        same: LocationData = {"match": "=" if not pattern.endswith("/") else "", "pattern": pattern}
        if found := made.add({**same, **row, "proxy_uri": "" if own == pattern else own}):
            return f"-{found}"
    return f"!Paddock does not import {', '.join(rest)}" if rest else ""


def _request_headers(made: Host, match: re.Match[str], inside: Sequence[Node]) -> list[HeaderData]:
    """Return the request headers that httpd sends and Paddock would not by default: the upstream's host name as Host,
    and the client's own X-Real-IP and X-Forwarded-* headers.
    """
    found: list[HeaderData] = []
    if not _is_on([*made.own, *inside], "proxypreservehost", default=False):
        is_usual = match["port"] in (None, "443" if match["scheme"] in SECURE else "80")
        found.append({"name": "Host", "value": match["server"] if is_usual else f"{match['server']}:{match['port']}"})
    sets_scheme = any(item.low == "requestheader" and _sets_scheme(made, item) for item in made.own)
    names = ["X-Real-IP"] + ([] if sets_scheme else ["X-Forwarded-Proto"])
    names += [] if _is_on(made.own, "proxyaddheaders", default=True) else ["X-Forwarded-For"]
    for name in names:
        found.append({"name": name, "value": passed_on(name)})
    return found


def _is_on(nodes: Iterable[Node], name: str, *, default: bool) -> bool:
    values = [node.value for node in nodes if node.low == name]
    return values[-1].lower() == "on" if values else default


def _places(path: str, uri: str) -> list[tuple[str, str]]:
    """Return (pattern, path prefix for the upstream) of each location that a ProxyPass of `path` needs."""
    if path.endswith("/"):
        return [(path, uri)]
    return [(path, uri or "/"), (f"{path}/", f"{uri.rstrip('/')}/")]


def _led(node: Node) -> str:
    return f"{node.value.rstrip('/')}/" if len(node.args) == 2 else ""


def _parameters(words: tuple[str, ...]) -> tuple[LocationData, ServerData, list[str]]:
    """Convert the parameters of a ProxyPass. Return (fields of the location, fields of the upstream server, unsupported
    parameters).
    """
    row: LocationData = {}
    server: ServerData = {}
    rest: list[str] = []
    for word in words:
        name, _, value = word.partition("=")
        seconds = whole_seconds(value)
        if name == "nocanon":
            continue  # set by the panel if the path stays the same
        if name == "upgrade" and value.lower() in ("websocket", "any"):
            row["websocket"] = True
        elif name in ("timeout", "connectiontimeout") and seconds:
            row["read_timeout_s" if name == "timeout" else "connect_timeout_s"] = seconds
        elif name == "retry" and value.isdigit() and int(value) >= 1:
            server["fail_timeout_s"] = int(value)
        else:
            rest.append(word)
    if server.get("fail_timeout_s") == UpstreamServer("").fail_timeout_s:
        server = {}
    return row, server, rest


def location(made: Host, node: Node) -> str | None:
    """Map a `<Location /a>` that only proxies, as if its ProxyPass were a `ProxyPass /a` outside of sections; return
    None for other sections.
    """
    body = node.body or ()
    passes = [item for item in body if item.low == "proxypass"]
    granted = all(item.args in (("all", "granted"), ("allow,deny",), ("deny,allow",), ("from", "all"))
                  for item in body if item.low in ("require", "order", "allow"))  # fmt: skip
    if (
        len(passes) != 1
        or len(node.args) != 1
        or not granted
        or any(item.low not in (*_HARMLESS, "proxypass") for item in body)
    ):
        return None
    found = passed(made, node.value, passes[0].value, passes[0].args[1:], body)
    for item in body:
        if item.low == "proxypassreverse" and found is not None and not found.startswith("-"):
            args = item.args if len(item.args) > 1 else (node.value, *item.args)
            made.draft.snippet(made.block, Node(item.name, args, item.file, item.line, item.end), made.where)
    return found


def websockets(made: Host) -> tuple[set[int], set[str]]:
    """Find the rewrite rules that pass WebSockets to a server to which ProxyPass sends all requests too. Return the
    `id()` of each node of these rules, and the servers' addresses.
    """
    nodes: set[int] = set()
    servers: set[str] = set()
    conditions: list[Node] = []
    for item in made.own:
        if item.low == "rewritecond":
            conditions.append(item)
        elif item.low == "rewriterule":
            if address := _upgrades(made, item, conditions):
                servers.add(address)
                nodes |= {id(item), *map(id, conditions)}
            conditions = []
    return nodes, servers


def _upgrades(made: Host, rule: Node, conditions: list[Node]) -> str:
    """Return the address of the server to which a rewrite rule passes WebSockets; "" for other rules, or if ProxyPass
    does not send all requests to this server.
    """
    if len(rule.args) != 3 or rule.args[0] not in (*apache_rewrites.ANYTHING, "/?(.*)", "^/?(.*)", "/(.*)"):
        return ""
    match = TARGET.match(rule.args[1].replace("/$1", "/").replace("$1", "/").replace("%{REQUEST_URI}", "/"))
    flags = {part.strip().upper() for part in rule.args[2].strip("[]").split(",")}
    asked = {item.value.upper() for item in conditions}
    if match is None or not _WHOLE.search(rule.args[1]) or "P" not in flags or flags - {"P", "L", "NC", "NE", "END"}:
        return ""
    if "%{HTTP:UPGRADE}" not in asked or asked - set(_UPGRADE) or match["uri"] != "/":
        return ""
    address = f"{match['server']}:{match['port'] or (443 if match['scheme'] in SECURE else 80)}"
    return address if any(_everything_to(item, address) for item in made.own) else ""


def _everything_to(node: Node, address: str) -> bool:
    if node.low != "proxypass" or len(node.args) < 2 or node.args[0] != "/":
        return False
    match = TARGET.match(node.args[1])
    return match is not None and match["uri"] == "/" and (
        f"{match['server']}:{match['port'] or (443 if match['scheme'] in SECURE else 80)}" == address
    )  # fmt: skip


def off_only(made: Host, node: Node) -> str | None:
    """Return "" for a directive with the value off, which is the default; None for other values, to keep the directive
    as a raw directive.
    """
    return "" if node.value.lower() == "off" else None


def request_header(made: Host, node: Node) -> str | None:
    """Map a RequestHeader that sets X-Forwarded-Proto, which the panel always sends to upstreams; keep others as raw
    directives.
    """
    is_proxy = any(item.low in ("proxypass", "location") for item in made.own)
    return "" if is_proxy and _sets_scheme(made, node) else None


def _sets_scheme(made: Host, node: Node) -> bool:
    scheme = "https" if any(item["tls"] for item in made.block["listens"]) else "http"
    return [value.lower().strip('"') for value in node.args] == ["set", "x-forwarded-proto", scheme]


def preserve_host(made: Host, node: Node) -> str | None:
    """Return "", for mapped: `passed` sets the Host header of each location by the value of ProxyPreserveHost."""
    return ""


def add_headers(made: Host, node: Node) -> str | None:
    """Return "", for mapped, if the virtual host proxies: `passed` sets the headers of each location by
    ProxyAddHeaders. Otherwise return None, to keep the directive as a raw directive.
    """
    return "" if any(item.low in ("proxypass", "location") for item in made.own) else None
