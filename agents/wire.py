"""One JSON object a line, both ways: what the agent needs of the protocol and nothing more.

Apart from protocol.py because importing `dataclasses` alone would nearly double the agent's start-up time.
Standard library only, Python 3.8.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # `typing` is not imported on a managed host: it costs milliseconds at every start
if TYPE_CHECKING:
    from typing import Any

VERSION = 1
MAX_LINE_BYTES = 64 * 1024 * 1024


def encode(message: dict[str, Any]) -> bytes:
    """One line, newline included."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The object on one line; ValueError when it is not one, too long, or of another version."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError("line of %d bytes is over the limit" % len(line))
    message = json.loads(line)
    if not isinstance(message, dict) or message.get("v") != VERSION:
        raise ValueError("not a message of protocol version %d" % VERSION)
    return message
