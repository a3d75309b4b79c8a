"""Render fixed responses with status 200 and a text as one file each, next to the virtual host's own file.

OpenLiteSpeed has no directive for fixed responses. A regular-expression context whose `location` has no capture maps
every path to that one file (HttpReq::processMatchedURI in src/http/httpreq.cpp).
"""

from __future__ import annotations

from panel.rendering import variables
from panel.rendering.errors import NotExpressible
from panel.rendering.locations import Locations, Place
from panel.rendering.spec import Location
from panel.rendering.tree import Node, directive


def is_file(source: Location) -> bool:
    """Return whether the location sends status 200 with a constant text, which a file can hold."""
    if source.handler != "return" or source.return_code != 200 or not source.return_value:
        return False
    try:
        parts = variables.parse(source.return_value, "")
    except NotExpressible:
        return False
    return all(isinstance(part, str) for part in parts)


def is_rule(source: Location) -> bool:
    """Return whether the location has a fixed response that a rewrite rule can send: a status without text, or a
    redirect.
    """
    return source.handler == "return" and ((source.return_code or 0) >= 300 or not source.return_value)


def text(place: Place) -> str:
    parts = variables.parse(place.location.return_value, f"{place.pointer}/return_value")
    return "".join(str(part) for part in parts)


def file_name(place: Place) -> str:
    """Return the file name of a fixed response, relative to the virtual host's own folder."""
    return f"answers/{place.number}.txt"


def places(found: Locations) -> list[Place]:
    return [place for place in found.places if is_file(place.location)]


def body(place: Place) -> list[Node]:
    return [directive("location", f"$VH_ROOT/{file_name(place)}"), directive("allowBrowse", 1)]
