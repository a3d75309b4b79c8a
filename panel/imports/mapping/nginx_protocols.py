"""Map nginx locations with grpc_pass and uwsgi_pass and related directives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from panel.imports.mapping.common import fits
from panel.imports.mapping.nginx_handlers import forwarded_headers, timeouts, upstream_named
from panel.imports.reading import Node
from panel.rendering.nginx.types import UWSGI_PARAMS
from panel.websites import shapes
from panel.websites.definitions import HeaderData

if TYPE_CHECKING:
    from panel.imports.mapping.nginx_location import Location

_SERVER = r"(?P<server>unix:[^:]+|\[[^\]]+\](?::\d+)?|[^/:]+(?::\d+)?)"
_GRPC = re.compile(rf"(?:(?P<scheme>grpcs?)://)?{_SERVER}")
_UWSGI = re.compile(rf"(?:uwsgi://)?{_SERVER}")
_TIMES = ("connect_timeout", "read_timeout", "send_timeout")
_HEADER = re.compile(r"HTTP_[A-Z0-9_]+")


def grpc(place: Location) -> frozenset[str] | None:
    """Map a location with grpc_pass; return the names of mapped directives, None if sites cannot express it."""
    node = next(item for item in place.own if item.name == "grpc_pass")
    match = _GRPC.fullmatch(node.value)
    if match is None or "$" in node.value:
        return None
    is_tls = match["scheme"] == "grpcs"
    upstream = upstream_named(place, match["server"], 443 if is_tls else 80)
    if upstream is None:
        return None
    place.row |= {"handler": "proxy", "upstream": upstream, "upstream_protocol": "grpc", "upstream_tls": is_tls}
    place.took(node)
    forwarded_headers(place, match["server"], "grpc")
    place.row["websocket"] = False
    timeouts(place, "grpc")
    for item in place.own:
        if item.name in ("grpc_ssl_server_name", "grpc_ssl_name"):
            place.took(item, "changed", "the web server sends the host name of the request (SNI)")
    return _named("grpc", "pass", "set_header", "ssl_server_name", "ssl_name")


def uwsgi(place: Location) -> frozenset[str] | None:
    """Map a location with uwsgi_pass; return the names of mapped directives, None if sites cannot express it."""
    node = next(item for item in place.own if item.name == "uwsgi_pass")
    match = _UWSGI.fullmatch(node.value)
    if match is None or "$" in node.value:
        return None
    upstream = upstream_named(place, match["server"], 0)  # nginx has no default port for uwsgi
    if upstream is None:
        return None
    place.row |= {"handler": "proxy", "upstream": upstream, "upstream_protocol": "uwsgi", "upstream_tls": False}
    params = place.chain.effective("uwsgi_param")
    lacks_usual = set(UWSGI_PARAMS) - {item.value for item in params}
    note = "the application also receives the parameters of nginx's file uwsgi_params" if lacks_usual else ""
    place.took(node, "changed" if note else "mapped", note)
    for item in params:
        _param(place, item)
    timeouts(place, "uwsgi")
    return _named("uwsgi", "pass", "param")


def _param(place: Location, node: Node) -> None:
    name, *words = node.args
    is_usual = UWSGI_PARAMS.get(name) == tuple(words) or (name == "HTTPS" and words == ["$https"])
    if is_usual or _is_header(place, name, words):
        place.took(node)
    else:
        place.raw(node)


def _is_header(place: Location, name: str, words: list[str]) -> bool:
    """Map a uwsgi_param HTTP_* to a request header; return False if sites cannot express it."""
    if _HEADER.fullmatch(name) is None or len(words) != 1:
        return False
    header: HeaderData = {"name": name.removeprefix("HTTP_").replace("_", "-").title(), "value": words[0]}
    if fits(shapes.validate_headers, [header]) or not place.known(words):
        return False
    place.row.setdefault("request_headers", []).append(header)
    return True


def _named(module: str, *words: str) -> frozenset[str]:
    return frozenset(f"{module}_{word}" for word in (*words, *_TIMES))
