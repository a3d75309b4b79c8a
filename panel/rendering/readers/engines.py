"""Reader of each engine's grammar."""

from __future__ import annotations

from collections.abc import Callable

from panel.rendering.readers import Read, apache, nginx, openlitespeed

READERS: dict[str, Callable[[str], tuple[Read, ...]]] = {
    "nginx": nginx.read,
    "native": nginx.read,
    "apache": apache.read,
    "openlitespeed": openlitespeed.read,
}
