"""Parse values of `expires` in nginx's notation: off, epoch, max, a time such as 7d, -1 or "modified 1h"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from panel.rendering.errors import NotExpressible

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "M": 2592000, "y": 31536000}
_PART = re.compile(r"(\d{1,9})([smhdwMy]?)")
_TIME = re.compile(r"(?:\d{1,9}[smhdwMy])+|\d{1,9}")
# Expires and Cache-Control that nginx sends for `max`, and for `epoch` and negative times.
FOREVER = ("Thu, 31 Dec 2037 23:55:55 GMT", "max-age=315360000")
NEVER = ("Thu, 01 Jan 1970 00:00:01 GMT", "no-cache")


@dataclass(frozen=True)
class Expiry:
    """Parsed value of `expires`.

    `seconds` count from the access or, with `modified`, from the file's last change; negative means no-cache.
    """

    kind: Literal["off", "epoch", "max", "time"]
    seconds: int = 0
    modified: bool = False

    @property
    def no_cache(self) -> bool:
        return self.kind == "epoch" or (self.kind == "time" and self.seconds < 0)


def parse(value: str, field: str) -> Expiry:
    if value in ("off", "epoch", "max"):
        return Expiry(kind=value)  # type: ignore[arg-type]
    words = value.split(" ")
    modified = words[0] == "modified" and len(words) == 2
    time = words[-1] if len(words) == 1 or modified else ""
    sign = -1 if time.startswith("-") else 1
    if not _TIME.fullmatch(time.lstrip("+-") if time[:1] in ("+", "-") and time.count(time[0]) == 1 else time):
        raise NotExpressible(field, f"“{value}” is not a time; use 7d, 12h, -1, max, epoch, or off")
    seconds = sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(time))
    return Expiry("time", sign * seconds, modified)
