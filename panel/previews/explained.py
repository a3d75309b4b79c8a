"""Choice of the location that handles a request, by the rules of the web server (rendering.explain). Pure functions."""

from __future__ import annotations

from typing import Literal

from panel.previews.asking import Question
from panel.rendering.errors import NotExpressible
from panel.rendering.explain import Request, explain
from panel.rendering.spec import SiteSpec


def location_of(spec: SiteSpec, question: Question) -> str:
    """Return match and pattern of the location that handles the request, such as `^~ /static/`.
    "" if no location handles it, or if the choice cannot be computed.
    """
    host, listener = question.visitor.host, question.visitor.listener
    scheme: Literal["http", "https"] = "https" if listener.tls else "http"
    asked = Request(scheme, host, listener.port, question.path, listener.address)
    try:
        found = explain([spec], asked)
    except NotExpressible:
        return ""
    if not found.location:
        return ""
    _root, _blocks, block, _locations, number = found.location.split("/")
    location = spec.blocks[int(block)].locations[int(number)]
    return f"{location.match} {location.pattern}".strip()
