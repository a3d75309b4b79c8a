"""The reader of each engine's grammar, and the engines that share nginx's."""

from __future__ import annotations

from collections.abc import Callable

from panel.rendering.readers import Read, apache, nginx, openlitespeed

READERS: dict[str, Callable[[str], tuple[Read, ...]]] = {
    "nginx": nginx.read,
    "native": nginx.read,
    "apache": apache.read,
    "openlitespeed": openlitespeed.read,
}
NGINX_SYNTAX = frozenset({"nginx", "native"})
