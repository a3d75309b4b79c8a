"""Find the most requested URLs of a site at the end of its access log.

Visitors influence the log, so the result is only a hint. Only GET and HEAD requests with the status 2xx or 3xx count.
They are counted by path, without the query. Paths with a part that looks like a secret, such as a link to reset a
password, do not count.
"""

from __future__ import annotations

import os

from agents.host import paths, probe
from agents.host.errors import Refusal

MAX_BYTES = 256 * 1024
MAX_LENGTH = 200
MOST = 20
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")
_FILES = (".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".ico", ".woff", ".woff2")


def addresses(path: str, roots: list[str], most: int) -> list[str]:
    """Return at most `most` of the most requested paths in the access log at `path`, the most frequent first; [] if the
    log cannot be read.
    """
    try:
        descriptor = paths.open_file(paths.resolve(path, paths.resolve_roots(roots)))
    except (OSError, Refusal):
        return []
    try:
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, MAX_BYTES, max(0, size - MAX_BYTES))
    except OSError:
        return []
    finally:
        os.close(descriptor)
    lines = data.split(b"\n")
    counts: dict[str, int] = {}
    for line in lines[1 if size > MAX_BYTES else 0 :]:
        asked = address_of(line)
        if asked:
            counts[asked] = counts.get(asked, 0) + 1
    return sorted(counts, key=lambda asked: (-counts[asked], asked))[: min(most, MOST)]


def address_of(line: bytes) -> str:
    """Return the path of a successful request from one line of an access log; "" for any other line, for Paddock's own
    requests, and for a path that looks like a secret.

    Supports combined, common and JSON lines: `"GET /path HTTP/1.1" 200`, or the same request and status as fields of an
    object.
    """
    if probe.AGENT in line:  # Paddock's own requests
        return ""
    for method in (b"GET ", b"HEAD "):
        at = line.find(b'"' + method)
        if at >= 0:
            break
    else:
        return ""
    request, quote, rest = line[at + 1 + len(method) :].partition(b'"')
    target, blank, version = request.partition(b" ")
    if not quote or not blank or not version.startswith(b"HTTP/") or not _is_well(rest, line):
        return ""
    path = target.partition(b"?")[0].decode("ascii", "replace")
    return path if may_be_asked(path) else ""


def _is_well(rest: bytes, line: bytes) -> bool:
    """Return whether a log line has a status of 2xx or 3xx. `rest` is the part of the line after the request."""
    status = rest.strip().split(b" ", 1)[0]
    marker = b'"status":'
    if not status.isdigit() and marker in line:
        status = line.partition(marker)[2].strip().lstrip(b'"')[:3]
    return len(status) == 3 and status[:1] in (b"2", b"3")


def may_be_asked(path: str) -> bool:
    if not path.startswith("/") or len(path) > MAX_LENGTH or not _PLAIN.issuperset(path):
        return False
    return path.endswith(_FILES) or not any(_is_secret(part) for part in path.split("/"))


def _is_secret(part: str) -> bool:
    """Return whether a segment of a path looks like a secret token: long with several digits, or very long."""
    digits = sum(letter.isdigit() for letter in part)
    return (len(part) >= 16 and digits >= 3 and "-" not in part.strip("-")[:8]) or len(part) >= 40
