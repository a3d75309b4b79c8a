"""Normalize a request's path as nginx does: decode, merge slashes, resolve dot segments.

Source: ngx_http_parse_complex_uri (http/ngx_http_parse.c), with merge_slashes on.
"""

from __future__ import annotations

import re

_ENCODED = re.compile(rb"%([0-9A-Fa-f]{2})")


class BadPath(ValueError):
    """Error for a path to which nginx responds with 400 before it chooses a location."""


def split_target(target: str) -> tuple[str, str]:
    """Split a request target into path and query; drop a fragment."""
    path, _, query = target.split("#", 1)[0].partition("?")
    return path, query


def normalise(path: str) -> str:
    """Return the decoded, normalized path; raise BadPath for an invalid one.

    Bytes that are not UTF-8 become surrogates, so nothing is lost.
    """
    if not path.startswith("/"):
        raise BadPath(f"“{path}” does not start with /")
    raw = path.encode("utf-8", "surrogateescape")
    if re.search(rb"%(?![0-9A-Fa-f]{2})", raw):
        raise BadPath(f"“{path}” contains an incomplete % escape; use %25 for a percent sign")
    decoded = _ENCODED.sub(lambda found: bytes([int(found[1], 16)]), raw)
    if b"\0" in decoded:
        raise BadPath("the path contains an encoded NUL")
    return _resolve(decoded).decode("utf-8", "surrogateescape")


def _resolve(path: bytes) -> bytes:
    segments: list[bytes] = []
    parts = path.split(b"/")[1:]
    for part in parts:
        if part == b"..":
            if not segments:
                raise BadPath("the path leads above the root")
            segments.pop()
        elif part not in (b"", b"."):
            segments.append(part)
    trailing = b"/" if parts[-1] in (b"", b".", b"..") and segments else b""
    return b"/" + b"/".join(segments) + trailing
