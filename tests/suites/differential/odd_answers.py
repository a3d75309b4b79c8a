"""Answers of applications as bytes: well formed, or with one thing that is not."""

from __future__ import annotations

import struct
from random import Random

from tests.suites.differential import odd_pieces as pieces


class _Odd:
    """What of one answer is odd: one thing, or nothing."""

    def __init__(self, chance: Random, kinds: list[str]) -> None:
        self.chance = chance
        self.kind = chance.choice(kinds) if chance.randrange(2) else ""

    def one(self, kind: str, odd: list[str], *usual: str) -> str:
        return self.chance.choice(odd if self.kind == kind else usual)


def http(chance: Random, method: str) -> tuple[list[bytes], str, bool]:
    """An answer in parts, what becomes of the connection, and whether there is something odd about it."""
    odd = _Odd(chance, ["first", "line", "line", "length", "coding", "size", "tail", "end", "cut", "before"])
    end = odd.one("end", ["\n"], "\r\n")
    framing, data, stays = _framed(chance, odd, "" if method == "HEAD" else chance.choice(pieces.BODIES))
    first = odd.one("first", pieces.ODD_FIRST_LINES, *pieces.FIRST_LINES)
    lines = [first, *chance.sample(pieces.LINES, chance.choice([0, 1, 2, 3]))]
    if odd.kind == "line":
        lines.insert(chance.randrange(1, len(lines) + 1), chance.choice(pieces.ODD_LINES))
    if first[9:12] in ("204", "304") and not odd.kind:
        framing = data = ""
    lines += [framing] if framing else []
    if odd.kind or not stays:
        # Else both servers could take a connection for the next request that is about to be closed.
        lines.insert(1, "Connection: close")
    whole = end.join(lines) + end + end + ("" if method == "HEAD" else data)
    kept = "keep" if stays and not odd.kind else "close"
    if odd.kind == "before":
        whole = chance.choice(pieces.BEFORE) + whole
    data = whole.encode("latin-1", "replace")
    if odd.kind == "cut":
        data, kept = _short(chance, data)
    return _cut(chance, data), kept, bool(odd.kind)


def _short(chance: Random, whole: bytes) -> tuple[bytes, str]:
    """As much of an answer as comes, and how the connection ends."""
    head = whole.find(b"\r\n\r\n") + 4
    at = chance.choice([0, chance.randrange(head + 1), chance.randrange(len(whole) + 1), len(whole)])
    return whole[:at], chance.choice(["close", "reset"])


def _framed(chance: Random, odd: _Odd, body: str) -> tuple[str, str, bool]:
    """The field that tells the length, the bytes, and whether they can end without the connection."""
    body = body.encode().decode("latin-1")
    if odd.kind == "length" or (odd.kind not in ("coding", "size", "tail") and chance.randrange(2)):
        field = odd.one("length", pieces.ODD_LENGTHS, *pieces.LENGTHS)
        return _filled(field, len(body)), body, bool(field)
    size = chance.choice([1000, 5000] if len(body) > 400 else [1, 3, 100, 5000])
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    sizes = odd.one("size", pieces.ODD_SIZES, pieces.SIZE)
    chunks = "".join(sizes.format(len(part)) + f"\r\n{part}\r\n" for part in parts)
    tail = odd.one("tail", pieces.ODD_TAILS, pieces.TAIL)
    return odd.one("coding", pieces.ODD_CODINGS, pieces.CODING), chunks + tail, True


def _filled(field: str, size: int) -> str:
    return field.format(size=size, more=size + 3, less=max(size - 2, 0))


def _cut(chance: Random, whole: bytes) -> list[bytes]:
    """In one piece, or in some."""
    at = sorted(chance.randrange(len(whole) + 1) for _ in range(chance.choice([0, 0, 0, 0, 1, 2, 4])))
    return [whole[first:last] for first, last in zip([0, *at], [*at, len(whole)], strict=True)]


def fastcgi(chance: Random, method: str) -> tuple[list[bytes], str, bool]:
    """The same in FastCGI's records."""
    odd = _Odd(chance, ["first", "line", "line", "length", "record", "record", "errors", "end", "finish", "cut"])
    status = odd.one("first", pieces.ODD_STATUSES, *pieces.STATUSES)
    lines = [status, *chance.sample(pieces.LINES, chance.choice([0, 1, 1, 2, 3]))]
    if odd.kind == "line":
        lines.append(chance.choice(pieces.ODD_LINES))
    body = "" if method == "HEAD" else chance.choice(pieces.BODIES)
    length = odd.one("length", pieces.ODD_LENGTHS, "", "Content-Length: {size}")
    if status[8:11] in ("204", "304") and not odd.kind:
        length = body = ""
    lines.append(_filled(length, len(body.encode())))
    line_end = odd.one("end", ["\n"], "\r\n")
    head = line_end.join([line for line in lines if line] or ["X-One: 1"]) + line_end * 2
    stdout = head.encode("latin-1") + body.encode()
    parts = [part[at : at + 65_000] for part in _cut(chance, stdout) for at in range(0, len(part), 65_000)]
    records = [_record(6, part, chance.choice([0, 0, 7])) for part in parts]
    if odd.kind == "errors":
        records.insert(chance.randrange(len(records) + 1), _record(7, chance.choice(pieces.ERRORS)))
    if odd.kind == "record":
        records.insert(chance.randrange(len(records) + 1), chance.choice(ODD_RECORDS))
    if odd.kind != "finish":
        records += [_record(6, b""), _record(3, b"\0\0\0\0\0\0\0\0", chance.choice([0, 0, 3]))]
    elif chance.randrange(2):
        records += [_record(6, b"")]
    whole, end = b"".join(records), "close" if odd.kind else "keep"
    if odd.kind == "cut":
        whole, end = _short(chance, whole)
        # nginx keeps the client's connection after less than it told, where this one is reset.
        end = "close" if b"Content-Length" in stdout else end
    return _cut(chance, whole), end, bool(odd.kind)


def gateway(chance: Random, method: str) -> tuple[list[bytes], str, bool]:
    """The same of uwsgi and SCGI: with a status line or without one, up to the length or the close."""
    odd = _Odd(chance, ["first", "line", "line", "length", "end", "cut"])
    usual = chance.choice([pieces.FIRST_LINES, pieces.STATUSES])
    status = odd.one("first", [*pieces.ODD_FIRST_LINES, *pieces.ODD_STATUSES, "HTTP/2.0 200 OK"], *usual)
    lines = [status, *chance.sample(pieces.LINES, chance.choice([0, 1, 1, 2, 3]))]
    if odd.kind == "line":
        lines.append(chance.choice(pieces.ODD_LINES))
    body = "" if method == "HEAD" else chance.choice(pieces.BODIES)
    length = odd.one("length", pieces.ODD_LENGTHS, "", "Content-Length: {size}")
    if any(code in status[:12] for code in ("204", "304")) and not odd.kind:
        length = body = ""
    lines.append(_filled(length, len(body.encode())))
    line_end = odd.one("end", ["\n"], "\r\n")
    head = line_end.join([line for line in lines if line] or ["X-One: 1"]) + line_end * 2
    whole, end = head.encode("latin-1") + body.encode(), "close"
    if odd.kind == "cut":
        whole, end = _short(chance, whole)
    return _cut(chance, whole), end, bool(odd.kind)


def _record(kind: int, content: bytes, padding: int = 0, request: int = 1) -> bytes:
    return struct.pack(">BBHHBB", 1, kind, request, len(content), padding, 0) + content + b"\0" * padding


ODD_RECORDS = [
    _record(11, b"x"), _record(6, b"wrong", request=2), b"\x02" + _record(6, b"v")[1:], _record(0, b""), b"\x01",
    b"junk", _record(3, b"\0\0\0\1\0\0\0\0"), _record(3, b"\0\0\0\0\3\0\0\0"), _record(3, b"\0"), _record(9, b""),
    _record(6, b"late"), _record(7, b""), _record(3, b"\0\0\0\0\1\0\0\0"), _record(3, b"\0" * 20), _record(3, b""),
    _record(3, b"\0\0\0\0\x09\0\0\0", 5), _record(6, b"", 9),
]  # fmt: skip
