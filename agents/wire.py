"""Encode and decode protocol messages as JSON lines.

The agent imports this module but not protocol.py, whose dataclasses only the panel uses. This module needs only the
standard library of Python 3.8.
"""

from __future__ import annotations

import json
from typing import Any

VERSION = 1
MAX_LINE_BYTES = 64 * 1024 * 1024  # per request
MAX_ANSWER_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 32
MAX_NUMBER = 1 << 63


dumps = json.JSONEncoder(separators=(",", ":")).encode
loads = json.loads


def encode(message: dict[str, Any]) -> bytes:
    """Return the message as one line of JSON in bytes, including the newline."""
    return dumps(message).encode("ascii") + b"\n"


def decode(line: bytes, limit: int = MAX_LINE_BYTES) -> dict[str, Any]:
    """Parse one line as a protocol message; return the JSON object.

    Raises ValueError if the line is invalid, too long, too deeply nested, or of another protocol version.
    """
    if len(line) > limit:
        raise ValueError("a line of %d bytes is over the limit of %d" % (len(line), limit))
    try:
        message = loads(line.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("it is nested more than %d deep" % MAX_DEPTH) from None
    if not isinstance(message, dict) or message.get("v") != VERSION:
        raise ValueError("not a message of protocol version %d" % VERSION)
    check_depth(message)
    return message


def check_depth(message: Any) -> None:
    """Raise ValueError for a value that is nested too deeply, or contains a number that databases cannot store."""
    level: list[Any] = [message]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            for item in value.values() if type(value) is dict else value:
                kind = type(item)
                if kind is dict or kind is list:
                    inner.append(item)
                elif kind is int and not -MAX_NUMBER <= item < MAX_NUMBER:
                    raise ValueError("it holds a number of more than 64 bits")
        if not inner:
            return
        level = inner
    raise ValueError("it is nested more than %d deep" % MAX_DEPTH)
