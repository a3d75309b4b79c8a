"""Search a log, including its rotated files, for a text during a period, and count its requests by hour.

Visitors write these lines, so a visitor can influence the results. Time, bytes, and lines are limited. If a log exceeds
a limit, only its newest part is read, and the result is marked as incomplete.
"""

from __future__ import annotations

import os
import re
import threading
import time
import zlib
from collections import deque
from typing import Any, Deque, Dict, Iterator, List

from agents.host import log_times, paths
from agents.host.errors import Refusal
from agents.host.operations import Emit

MAX_LINES = 1000
MAX_TEXT = 500  # characters searched for
MAX_FILES = 60
MAX_BYTES = 256 * 1024 * 1024  # uncompressed
MAX_PERIOD_S = 32 * 24 * 3600
MAX_S = 20.0
MAX_LINE = 16 * 1024
MAX_RESULT = 2 * 1024 * 1024
_HOUR_S = 3600
_PIECE = 1024 * 1024
_ROTATED = re.compile(r"(?:[.-]\d{1,10})?(?:\.gz)?")
_RESPONSE = re.compile(rb'" (\d{3}) (\d+|-)|"status":"?(\d{3})"?,"bytes":"?(\d+|-)')

Hours = Dict[int, Dict[str, Any]]


def run(args: dict[str, Any], emit: Emit, cancelled: threading.Event) -> dict[str, Any]:
    """Search one log, including its rotated files.

    {"path", "roots", "begin", "end", "text", "most"} -> {"lines", "matching", "hours", "is_complete"}. `begin` and
    `end` are seconds since the epoch. "lines" are the newest `most` lines of that time that contain `text` (case is
    ignored), oldest first; "matching" is the number of all such lines. "hours" are the requests of each hour, with or
    without the text: [{"begin", "requests", "statuses", "bytes"}], with "statuses" by their first digit.
    """
    path = paths.resolve(args.get("path"), paths.resolve_roots(args.get("roots")))
    search = _Search(*_checked(args), until=time.monotonic() + MAX_S, cancelled=cancelled)
    for name in _files(path, search.begin):
        try:
            search.read(os.path.join(os.path.dirname(path), name))
        except Refusal:
            if name == os.path.basename(path):
                raise  # a rotated file that may not be read is left out
        if search.is_over:
            break
    return search.result()


def _checked(args: dict[str, Any]) -> tuple[float, float, str, int]:
    begin, end, text, most = args.get("begin"), args.get("end"), args.get("text", ""), args.get("most", 0)
    if not isinstance(begin, (int, float)) or not isinstance(end, (int, float)) or not 0 < end - begin <= MAX_PERIOD_S:
        raise Refusal("invalid", "begin and end are seconds, at most %d apart" % MAX_PERIOD_S)
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise Refusal("invalid", "text has at most %d characters" % MAX_TEXT)
    if not isinstance(most, int) or not 0 <= most <= MAX_LINES:
        raise Refusal("invalid", "most is a whole number from 0 to %d" % MAX_LINES)
    return begin, end, text, most


def _files(path: str, begin: float) -> list[str]:
    """Return the names of the log and of its rotated files, the current file first, then the newest. Rotated files that
    were last changed before `begin` are left out.
    """
    folder, name = os.path.split(path)
    try:
        descriptor = paths.open_folder(folder)
    except FileNotFoundError:
        raise Refusal("missing", "the log %s does not exist" % path, path=path) from None
    try:
        found = []
        for other in os.listdir(descriptor):
            if other.startswith(name) and _ROTATED.fullmatch(other[len(name) :]):
                changed = os.stat(other, dir_fd=descriptor, follow_symlinks=False).st_mtime
                if changed >= begin or other == name:
                    found.append((other == name, changed, other))
    finally:
        os.close(descriptor)
    if not any(is_current for is_current, _changed, _name in found):
        raise Refusal("missing", "the log %s does not exist" % path, path=path)
    return [other for _is_current, _changed, other in sorted(found, reverse=True)[:MAX_FILES]]


class _Search:
    """State of one search: the lines and counts found so far, and the remainder of each limit."""

    def __init__(
        self, begin: float, end: float, text: str, most: int, *, until: float, cancelled: threading.Event
    ) -> None:
        self.begin, self.end, self.most = begin, end, most
        self.text = text.lower().encode("utf-8")
        self.until, self.cancelled = until, cancelled
        self.rest = MAX_BYTES
        self.is_over = False  # a limit was reached
        self.parts: List[List[bytes]] = []
        self.matching = 0
        self.hours: Hours = {}

    def read(self, path: str) -> None:
        """Search one file of the log. If the file is larger than the remaining number of bytes, read only its end."""
        try:
            descriptor = paths.open_file(path)
        except FileNotFoundError:
            return  # rotated away meanwhile
        kept: Deque[bytes] = deque(maxlen=max(0, self.most - sum(len(part) for part in self.parts)))
        try:
            pieces = self._unpacked(descriptor) if path.endswith(".gz") else self._plain(descriptor)
            at: float | None = None
            for line in _lines(pieces):
                at = log_times.time_of(line) or at  # a line without a time continues the one before
                if at is not None and self.begin <= at < self.end:
                    self._add(line, at, kept)
        finally:
            os.close(descriptor)
        self.parts.insert(0, list(kept))

    def _add(self, line: bytes, at: float, kept: Deque[bytes]) -> None:
        response = _RESPONSE.search(line)
        if response:
            status, size = (response.group(1) or response.group(3)), (response.group(2) or response.group(4))
            hour = int(at // _HOUR_S * _HOUR_S)
            row = self.hours.setdefault(hour, {"begin": hour, "requests": 0, "statuses": {}, "bytes": 0})
            row["requests"] += 1
            row["bytes"] += int(size[:15]) if size != b"-" else 0
            first = status[:1].decode()
            row["statuses"][first] = row["statuses"].get(first, 0) + 1
        if self.text in line.lower():
            self.matching += 1
            kept.append(line[:MAX_LINE])

    def _plain(self, descriptor: int) -> Iterator[bytes]:
        size = os.fstat(descriptor).st_size
        offset = max(0, size - self.rest)
        if offset:
            self.is_over = True
        yield from self._limited(iter(lambda: os.read(descriptor, _PIECE), b""), descriptor, offset)

    def _limited(self, pieces: Iterator[bytes], descriptor: int, offset: int) -> Iterator[bytes]:
        if offset:
            os.lseek(descriptor, offset, os.SEEK_SET)
            pieces = _without_first_line(pieces)
        for piece in pieces:
            if self.rest <= 0 or self.cancelled.is_set() or time.monotonic() > self.until:
                self.is_over = True
                return
            self.rest -= len(piece)
            yield piece

    def _unpacked(self, descriptor: int) -> Iterator[bytes]:
        yield from self._limited(_inflated(descriptor), descriptor, 0)

    def result(self) -> dict[str, Any]:
        lines = [line for part in self.parts for line in part]
        return {
            "lines": [line.decode("utf-8", "replace") for line in _last(lines, self.most)],
            "matching": self.matching,
            "hours": [self.hours[hour] for hour in sorted(self.hours)],
            "is_complete": not self.is_over,
        }


def _last(lines: list[bytes], most: int) -> list[bytes]:
    """Return the newest of `lines`: at most `most` lines, and at most MAX_RESULT bytes."""
    found: Deque[bytes] = deque()
    size = 0
    for line in reversed(lines[max(0, len(lines) - most) :]):
        size += len(line)
        if size > MAX_RESULT:
            break
        found.appendleft(line)
    return list(found)


def _inflated(descriptor: int) -> Iterator[bytes]:
    """Yield the decompressed content of a gzip file in pieces of at most _PIECE bytes; stop at damaged data."""
    unpack = zlib.decompressobj(wbits=31)
    packed = b""
    while True:
        packed = packed or os.read(descriptor, 65536)
        if not packed:
            yield unpack.flush()
            return
        try:
            piece = unpack.decompress(packed, _PIECE)
        except zlib.error:
            return
        if piece:
            yield piece
        packed = unpack.unconsumed_tail
        if unpack.eof:
            packed = unpack.unused_data
            unpack = zlib.decompressobj(wbits=31)


def _without_first_line(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        _incomplete, newline, rest = piece.partition(b"\n")
        if newline:
            yield rest
            break
    yield from pieces


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of the text that `pieces` form together; a line longer than MAX_LINE bytes is cut."""
    rest, is_skipping = b"", False
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if not is_skipping:
                yield line
            is_skipping = False
        if len(rest) > MAX_LINE:
            if not is_skipping:
                yield rest[:MAX_LINE]
            rest, is_skipping = b"", True
    if rest and not is_skipping:
        yield rest
