"""JSON lines in both directions: the part of the protocol that the agent needs.

Separate from protocol.py because importing `dataclasses` would nearly double the agent's start-up time. Standard
library only, Python 3.8.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not imported on a managed host, where it costs milliseconds at every start
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

VERSION = 1
MAX_LINE_BYTES = 64 * 1024 * 1024  # per request
MAX_ANSWER_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 32
MAX_NUMBER = 1 << 63


class _Reading:
    """The json module's defaults, in the form that its C scanner needs."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__


def _refuse(value: Any) -> Any:
    raise TypeError("%s has no form in JSON" % type(value).__name__)


def _codec() -> Tuple[Callable[[Any], str], Callable[[str], Any]]:
    """dumps and loads. The json module is a thin layer around these two functions, but imports `re`, which takes as
    long as starting Python.
    """
    try:
        import _json

        encoder = _json.make_encoder(None, _refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, True)
        scan = _json.make_scanner(_Reading)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):  # a Python other than CPython, or a newer one
        import json

        return json.JSONEncoder(separators=(",", ":")).encode, json.loads

    def loads(text: str) -> Any:
        text = text.strip(" \t\r\n")
        try:
            value, end = scan(text, 0)
        except StopIteration as stopped:
            raise ValueError("not JSON at character %s" % stopped) from None
        if end != len(text):
            raise ValueError("more than one JSON value: another begins at character %d" % end)
        return value

    return lambda value: "".join(encoder(value, 0)), loads


dumps, loads = _codec()


def encode(message: dict[str, Any]) -> bytes:
    """One line, including the newline."""
    return dumps(message).encode("ascii") + b"\n"


def decode(line: bytes, limit: int = MAX_LINE_BYTES) -> dict[str, Any]:
    """The object on one line; ValueError if it is invalid, too long, too deep, or of another version."""
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
