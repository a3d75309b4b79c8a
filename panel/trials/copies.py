"""A site's definition, made over so that it can stand beside the original: private ports, no logs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

LOOPBACK = "127.0.0.1"
NOTES = "Temporary copy for a server comparison. Paddock removes it when the comparison ends."


def listeners(definition: Mapping[str, Any]) -> list[tuple[int, bool]]:
    """The distinct (port, whether TLS) that the site listens on: as many private ports are needed."""
    found = [(listen["port"], listen["tls"]) for block in definition["blocks"] for listen in block["listens"]]
    return list(dict.fromkeys(found))


def definition_of_copy(original: Mapping[str, Any], *, name: str, install: int, ports: Iterator[int]) -> dict[str, Any]:
    """What `websites.services.site_define` takes for the copy on `install`.

    Every listener gets a port of its own on loopback, so that nobody outside sees the copy. Names, content and handlers
    stay. Logs are off: the copies of all servers are then alike, and the site's own log does not fill with the load.
    """
    copy = deepcopy(dict(original)) | {"name": name, "install": install, "enabled": True, "notes": NOTES}
    private = {listener: next(ports) for listener in listeners(original)}
    for block in copy["blocks"]:
        block["access_log"], block["error_log"] = "off", ""
        seen: dict[tuple[int, bool], dict[str, Any]] = {}
        for listen in block["listens"]:
            key = (listen["port"], listen["tls"])
            seen.setdefault(key, {**listen, "address": LOOPBACK, "port": private[key]})
        block["listens"] = list(seen.values())
    return copy
