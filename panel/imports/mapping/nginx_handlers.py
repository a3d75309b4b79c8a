"""Map nginx locations that pass requests on: proxy_pass and fastcgi_pass with related directives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from panel.imports.mapping.common import fits, slug, whole_seconds
from panel.imports.reading import Node
from panel.rendering.headers import passed_on
from panel.rendering.nginx.types import FASTCGI_PARAMS, FORWARDED_HEADERS
from panel.websites import shapes, validators
from panel.websites.definitions import HeaderData, PhpPoolData, ServerData, UpstreamData

if TYPE_CHECKING:
    from panel.imports.mapping.nginx_location import Location

PROXY_WORDS = frozenset(
    {
        *("proxy_pass", "proxy_set_header", "proxy_http_version", "proxy_connect_timeout", "proxy_read_timeout"),
        *("proxy_send_timeout", "proxy_ssl_server_name", "proxy_ssl_name"),
    }
)
TARGET = re.compile(r"(?P<scheme>https?)://(?P<server>unix:[^:]+|\[[^\]]+\](?::\d+)?|[^/:]+(?::\d+)?)(?P<uri>:?/.*)?")
BALANCING = {"least_conn": "least_conn", "ip_hash": "ip_hash"}
FLAGS: dict[str, Literal["backup", "down"]] = {"backup": "backup", "down": "down"}
SERVER: dict[str, Literal["weight", "max_fails", "fail_timeout_s"]] = {
    "weight": "weight",
    "max_fails": "max_fails",
    "fail_timeout": "fail_timeout_s",
}
SPLITS = (r"^(.+?\.php)(/.*)$", r"^(.+\.php)(/.+)$", r"^(.+\.php)(/.*)$", r"^(.+?\.php)(/.+)$", r"^(.+?\.php)(|/.*)$")
SCRIPTS = ("$document_root$fastcgi_script_name", "$document_root/$fastcgi_script_name", "$request_filename")


def proxy(place: Location) -> bool:
    """Map a location with proxy_pass and record its directives; return False if sites cannot express it."""
    node = next(item for item in place.own if item.name == "proxy_pass")
    match = TARGET.fullmatch(node.value)
    if match is None or "$" in node.value:
        return False
    uri = (match["uri"] or "").removeprefix(":")
    if uri and (place.is_regex or fits(validators.validate_uri_path, uri)):
        return False
    upstream = upstream_named(place, match["server"], 443 if match["scheme"] == "https" else 80)
    if upstream is None:
        return False
    place.row |= {
        "handler": "proxy",
        "upstream": upstream,
        "proxy_uri": uri,
        "upstream_tls": match["scheme"] == "https",
    }
    place.took(node)
    forwarded_headers(place, match["server"], "proxy")
    timeouts(place, "proxy")
    for item in place.own:
        if item.name == "proxy_http_version":
            is_same = item.value == "1.1"
            place.took(
                item,
                "mapped" if is_same else "changed",
                "" if is_same else "the web server sends HTTP/1.1 to the upstream",
            )
        elif item.name in ("proxy_ssl_server_name", "proxy_ssl_name"):
            place.took(item, "changed", "the web server sends the host name of the request (SNI)")
    if not place.chain.effective("proxy_http_version"):
        place.took(node, "changed", "the upstream receives HTTP/1.1 instead of HTTP/1.0")
    return True


def upstream_named(place: Location, server: str, port: int) -> str | None:
    """Return the name of the site's upstream for the server in a proxy_pass. A missing upstream is added to the site.
    None if sites cannot express the server. `port` is the default port.
    """
    block = place.upstreams.get(server.lower())
    if block is not None:
        return _upstream_of(place, server.lower(), block)
    has_port = server.startswith("unix:") or re.search(r":\d+$", server)
    address = server if has_port else f"{server}:{port}"
    if fits(validators.validate_upstream_address, address):
        return None
    row: UpstreamData = {"balancing": "round_robin", "keepalive": 0, "servers": [{"address": address}]}
    return place.draft.named(place.draft.upstreams, slug(server.removeprefix("unix:"), "upstream"), row)


def _upstream_of(place: Location, name: str, block: Node) -> str | None:
    row: UpstreamData = {"balancing": "round_robin", "keepalive": 0, "servers": []}
    for node in block.body or ():
        if node.name in BALANCING and not node.args:
            row["balancing"] = BALANCING[node.name]
        elif node.name == "keepalive" and node.value.isdigit() and int(node.value) <= 1024:
            row["keepalive"] = int(node.value)
        elif node.name == "server" and (server := _server(node)) is not None:
            row["servers"].append(server)
        elif node.name != "zone":
            return None
    return place.draft.named(place.draft.upstreams, slug(name, "upstream"), row) if row["servers"] else None


def _server(node: Node) -> ServerData | None:
    """Convert a `server` of an upstream to fields of the site; None if its address or one of its parameters is not
    supported.
    """
    address = node.value if node.value.startswith("unix:") or re.search(r":\d+$", node.value) else f"{node.value}:80"
    if fits(validators.validate_upstream_address, address):
        return None
    found: ServerData = {"address": address}
    for parameter in node.args[1:]:
        name, _, value = parameter.partition("=")
        if flag := FLAGS.get(name):
            found[flag] = True
            continue
        number = whole_seconds(value) if name == "fail_timeout" else int(value) if value.isdigit() else None
        if name not in SERVER or number is None:
            return None
        found[SERVER[name]] = number
    return found


def forwarded_headers(place: Location, server: str, module: str) -> None:
    """Set the request headers of a location so that the upstream receives the same headers as from the imported
    configuration.
    """
    own = {item.args[0].lower(): item for item in place.chain.effective(f"{module}_set_header") if len(item.args) == 2}
    kept: list[HeaderData] = []
    upgraded = own.get("upgrade") is not None and own["upgrade"].args[1] == "$http_upgrade"
    for low, node in own.items():
        name, value = node.args
        is_ours = any(known.lower() == low and value == ours for known, ours in FORWARDED_HEADERS.items())
        value = value.replace("$proxy_host", server)
        if is_ours or (low == "connection" and (upgraded or value == "")) or (low == "upgrade" and upgraded):
            place.took(node)
        elif fits(shapes.validate_headers, [{"name": name, "value": value}]) or not place.known([value]):
            place.raw(node, "sites do not support this header value")
            if any(known.lower() == low for known in FORWARDED_HEADERS):
                kept.append({"name": name, "value": ""})  # the raw directive sends it
            elif low == "connection":
                place.took(node, "changed", "the web server also sends Paddock's own value of this header")
        else:
            kept.append({"name": name, "value": value})
            place.took(node)
    place.row["websocket"] = upgraded
    if "host" not in own:
        kept.append({"name": "Host", "value": "localhost" if server.startswith("unix:") else server})
    names = [name for name in FORWARDED_HEADERS if name != "Host" and name.lower() not in own]
    kept += [{"name": name, "value": passed_on(name)} for name in names]  # nginx passes on what the client sent
    place.row["request_headers"] = kept


def timeouts(place: Location, module: str) -> None:
    own = {item.name: item for item in place.own}
    times: dict[str, Literal["connect_timeout_s", "read_timeout_s"]] = {
        f"{module}_connect_timeout": "connect_timeout_s",
        f"{module}_read_timeout": "read_timeout_s",
    }
    for name, field in times.items():
        if node := own.get(name):
            value = whole_seconds(node.value)
            if value is None:
                place.took(node, "changed", "sites support only whole seconds; Paddock uses the default")
            else:
                place.row[field] = value
                place.took(node)
    send, read = own.get(f"{module}_send_timeout"), own.get(f"{module}_read_timeout")
    if send:
        same = read is not None and read.value == send.value
        note = "" if same else "sites have one timeout for reading and sending together"
        place.took(send, "mapped" if same else "changed", note)


def fastcgi(place: Location) -> frozenset[str] | None:
    """Map a location with fastcgi_pass; return the names of mapped directives, None if sites cannot express it."""
    node = next(item for item in place.own if item.name == "fastcgi_pass")
    address = _single(place, node.value)
    if address is None or fits(validators.validate_upstream_address, address):
        return None
    params = place.chain.effective("fastcgi_param")
    script = next((item for item in reversed(params) if item.value == "SCRIPT_FILENAME"), None)
    if script is None or script.args[1] not in (*SCRIPTS, "$realpath_root$fastcgi_script_name"):
        return None
    settings = _settings(params)
    if settings is None:
        return None
    row: PhpPoolData = {"address": address, "settings": settings}
    pool = place.draft.named(place.draft.php_pools, "php", row)
    place.row |= {"handler": "php", "php_pool": pool}
    place.took(node)
    _split(place)
    for item in place.own:
        if item.name == "fastcgi_param":
            _param(place, item)
    timeouts(place, "fastcgi")
    times = {f"fastcgi_{name}_timeout" for name in ("connect", "read", "send")}
    return frozenset(
        {"fastcgi_pass", "fastcgi_param", "fastcgi_index", "fastcgi_split_path_info"} | times | _tried(place)
    )


def _single(place: Location, target: str) -> str | None:
    """Return the address of a fastcgi_pass target. If the target is an upstream, return the address of its only server;
    None if the upstream has several servers, or a server with parameters.
    """
    block = place.upstreams.get(target.lower())
    if block is None:
        return target
    servers = [node for node in block.body or () if node.name == "server"]
    return servers[0].value if len(servers) == 1 and len(servers[0].args) == 1 else None


def _settings(params: list[Node]) -> dict[str, str] | None:
    """Return the PHP settings in fastcgi_param PHP_VALUE; None if sites do not support one of them."""
    found: dict[str, str] = {}
    for node in params:
        if node.value not in ("PHP_VALUE", "PHP_ADMIN_VALUE"):
            continue
        for line in filter(None, (part.strip() for part in node.args[1].split("\n"))):
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip()
        if node.value == "PHP_ADMIN_VALUE" or fits(shapes.validate_php_settings, found):
            return None
    return found


def _split(place: Location) -> None:
    own = [item for item in place.own if item.name == "fastcgi_split_path_info"]
    place.row["split_path_info"] = bool(own)
    for node in own:
        same = node.value == SPLITS[0]
        place.took(
            node, "mapped" if same else "changed", "" if same else "Paddock splits the path after the first .php"
        )
    indexes = [item for item in place.own if item.name == "fastcgi_index"]
    for node in indexes:
        place.took(node)
        if node.value != "index.php" or place.is_regex:
            place.row["index"] = [node.value]


def _param(place: Location, node: Node) -> None:
    name, value = node.args[0], node.args[1] if len(node.args) > 1 else ""
    if FASTCGI_PARAMS.get(name) == value or (name == "SCRIPT_FILENAME" and value == SCRIPTS[0]):
        place.took(node)
    elif name == "SCRIPT_FILENAME":
        place.took(node, "changed", f"Paddock sends {SCRIPTS[0]} as SCRIPT_FILENAME")
    elif name in ("PHP_VALUE", "PATH_INFO"):
        place.took(node)
    else:
        place.raw(node)


def _tried(place: Location) -> set[str]:
    """Map try_files and `set` of a PHP location if they equal the panel's own directives, such as a test for missing
    scripts. Return the names of mapped directives.
    """
    taken: set[str] = set()
    tries = [item for item in place.own if item.name == "try_files"]
    for node in tries:
        if node.args == ("$fastcgi_script_name", "=404"):
            place.took(node)
            taken.add("try_files")
    if not tries:
        first = next(item for item in place.own if item.name == "fastcgi_pass")
        place.took(first, "changed", "PHP receives only requests for existing scripts; other paths get status 404")
    sets = [item for item in place.own if item.name == "set"]
    if place.row["split_path_info"] and [item.args for item in sets] == [("$path_info", "$fastcgi_path_info")]:
        place.took(sets[0])
        taken.add("set")
    return taken
