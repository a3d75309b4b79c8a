"""Definition of a site's copy for a server comparison: private ports, no logs. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

LOOPBACK = "127.0.0.1"
NOTES = "Temporary copy for a server comparison. Paddock removes this copy when the comparison ends."


def listeners(definition: Mapping[str, Any]) -> list[tuple[int, bool]]:
    """Return the distinct pairs (port, whether TLS) of the site's listens. A copy needs one private port for each."""
    found = [(listen["port"], listen["tls"]) for block in definition["blocks"] for listen in block["listens"]]
    return list(dict.fromkeys(found))


def definition_of_copy(
    original: Mapping[str, Any], *, name: str, web_server: int, ports: Iterator[int]
) -> dict[str, object]:
    """Return the definition of a site's copy on `web_server`, for `websites.services.site_define`.

    Every listen gets a loopback port of its own, so the copy is not reachable from other hosts. Names, content and
    handlers stay the same. Logs are off, so that all copies have equal conditions and the site's own log does not
    record the load. Stream servers are left out, because their ports belong to the original site, and a comparison does
    not measure them.
    """
    copy = deepcopy(dict(original)) | {"name": name, "web_server": web_server, "enabled": True, "notes": NOTES}
    copy["stream_servers"] = []
    private = {listener: next(ports) for listener in listeners(original)}
    for block in copy["blocks"]:
        block["access_log"], block["error_log"] = "off", ""
        seen: dict[tuple[int, bool], dict[str, object]] = {}
        for listen in block["listens"]:
            key = (listen["port"], listen["tls"])
            seen.setdefault(key, {**listen, "address": LOOPBACK, "port": private[key]})
        block["listens"] = list(seen.values())
    return copy
