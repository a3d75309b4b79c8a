"""Readers of the engines' grammars by engine, and the engines that share nginx's grammar."""

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
