"""Definition of a site's copy next to the original: private ports, no logs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

LOOPBACK = "127.0.0.1"
NOTES = "Temporary copy for a server comparison. Paddock removes it when the comparison ends."


def listeners(definition: Mapping[str, Any]) -> list[tuple[int, bool]]:
    """Distinct pairs (port, whether TLS) of the site's listens; each needs one private port."""
    found = [(listen["port"], listen["tls"]) for block in definition["blocks"] for listen in block["listens"]]
    return list(dict.fromkeys(found))


def definition_of_copy(
    original: Mapping[str, Any], *, name: str, web_server: int, ports: Iterator[int]
) -> dict[str, object]:
    """Input of `websites.services.site_define` for the copy on `web_server`.

    Every listen gets its own loopback port, so the copy is not reachable from outside. Names, content and handlers
    stay. Logs are off, so the copies are equal and the site's own log does not receive the load.
    """
    copy = deepcopy(dict(original)) | {"name": name, "web_server": web_server, "enabled": True, "notes": NOTES}
    private = {listener: next(ports) for listener in listeners(original)}
    for block in copy["blocks"]:
        block["access_log"], block["error_log"] = "off", ""
        seen: dict[tuple[int, bool], dict[str, object]] = {}
        for listen in block["listens"]:
            key = (listen["port"], listen["tls"])
            seen.setdefault(key, {**listen, "address": LOOPBACK, "port": private[key]})
        block["listens"] = list(seen.values())
    return copy
