"""Published figures of the suites, measured on other hardware and stored in published.json.
Charts show them next to the figures that Paddock measured.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("published.json")


@functools.cache
def suite(slug: str) -> dict[str, Any]:
    """Return the published benchmark with the id `slug`; StopIteration for an unknown id."""
    found = json.loads(_FILE.read_text(encoding="utf-8"))["suites"]
    return next(item for item in found if item["id"] == slug)


def case(slug: str, case_id: str) -> dict[str, Any] | None:
    """Return a published case as in published.json; None if the publication lacks the case.
    Keys: "args", "unit", "better", and either "rows", or "rounds" with "average" and "rating".
    """
    cases: list[dict[str, Any]] = suite(slug)["cases"]
    return next((item for item in cases if item["id"] == case_id), None)


def value(slug: str, case_id: str, row: int, server: str) -> float | None:
    """Return the published figure of a server in one row of a case; None if the publication has no such figure."""
    found = case(slug, case_id)
    if found is None or not server:
        return None
    if "rows" in found:
        printed = found["rows"][row].get(server) if row < len(found["rows"]) else None
    else:
        printed = found.get("average", {}).get(server)
    return float(printed) if isinstance(printed, int | float) else None


_NAMES = {
    "openlitespeed": "OpenLiteSpeed",
    "litespeed": "LiteSpeed",
    "apache": "Apache",
    "apache-prefork": "Apache, prefork",
    "apache-worker": "Apache, worker",
    "apache-event": "Apache, event",
    "openlitespeed-tcp": "OpenLiteSpeed + lsphp over TCP",
    "openlitespeed-socket": "OpenLiteSpeed + lsphp (managed)",
}


def named(server: str) -> str:
    """Return the display name of a server, by its name in the published tables."""
    return _NAMES.get(server, server)


def servers(slug: str) -> dict[str, str]:
    """Map the name of each server in the publication to its version and settings."""
    found: dict[str, str] = suite(slug)["servers"]
    return found
