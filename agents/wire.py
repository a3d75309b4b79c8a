"""One JSON object a line, both ways: what the agent needs of the protocol and nothing more.

Apart from protocol.py because importing `dataclasses` alone would nearly double the agent's start-up time.
Standard library only, Python 3.8.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not imported on a managed host: it costs milliseconds at every start
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

VERSION = 1
MAX_LINE_BYTES = 64 * 1024 * 1024


class _Reading:
    """The json module's own defaults, as its scanner in C asks for them."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__


def _refuse(value: Any) -> Any:
    raise TypeError("%s has no form in JSON" % type(value).__name__)


def _codec() -> Tuple[Callable[[Any], str], Callable[[str], Any]]:
    """dumps and loads. The json module is a thin shell around these two, but imports `re` for what they do without,
    which takes as long as starting Python does."""
    try:
        import _json

        encoder = _json.make_encoder(None, _refuse, _json.encode_basestring_ascii, None, ":", ",", False, False, True)
        scan = _json.make_scanner(_Reading)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):  # another Python than CPython, or a later one
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
    """One line, newline included."""
    return dumps(message).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The object on one line; ValueError when it is not one, too long, or of another version."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError("line of %d bytes is over the limit" % len(line))
    message = loads(line.decode("utf-8", "surrogatepass"))
    if not isinstance(message, dict) or message.get("v") != VERSION:
        raise ValueError("not a message of protocol version %d" % VERSION)
    return message
