"""Parse responses of the agent's operation `certificates`. Pure: no I/O.

A hostile host can send anything, so every value is checked. Everything except the path and the configuration files
comes from the certificate itself.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes

from panel.hosts.models import Engine
from panel.websites.certificates import names_of

MOST = 500  # the same limit as in the agent
MOST_NAMERS = 10
MOST_NAMES = 100
MOST_SKIPPED = 50
MAX_BASE64 = 24 * 1024
MAX_PATH = 1024  # bytes
MAX_NAME = 253
MAX_TEXT = 300
# "No end" is 9999-12-31 (RFC 5280, 4.1.2.5), which has no time zone east of UTC.
FIRST, LAST = dt.datetime(1950, 1, 2, tzinfo=dt.UTC), dt.datetime(9999, 12, 30, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Found:
    """One certificate in a file on a host; the fields are those of models.HostCertificate."""

    path: str
    named_in: list[list[str]]
    names: list[str]
    subject: str
    issuer: str
    fingerprint: str
    not_before: dt.datetime
    not_after: dt.datetime


@dataclass(frozen=True)
class Answer:
    certificates: list[Found]
    skipped: list[dict[str, str]]  # {"path", "why"}
    is_complete: bool


def answer_of(data: Mapping[str, Any]) -> Answer:
    """Parse the agent's response; leave out implausible values and duplicate paths."""
    by_path = {found.path: found for found in map(_found, _mappings(data.get("certificates"), MOST)) if found}
    skipped = [
        {"path": _path(row.get("path")), "why": _text(row.get("why"))}
        for row in _mappings(data.get("skipped"), MOST_SKIPPED)
    ]
    known = [row for row in skipped if row["path"]]
    return Answer(list(by_path.values()), known, is_complete=data.get("is_complete") is True)


def _found(row: Mapping[str, Any]) -> Found | None:
    path, encoded = _path(row.get("path")), row.get("der")
    if not path or not isinstance(encoded, str) or len(encoded) > MAX_BASE64:
        return None
    try:
        leaf = x509.load_der_x509_certificate(base64.b64decode(encoded, validate=True))
        return Found(
            path=path,
            named_in=_namers(row.get("named_in")),
            names=_names(leaf),
            subject=_shown(leaf.subject.rfc4514_string()),
            issuer=_shown(leaf.issuer.rfc4514_string()),
            fingerprint=leaf.fingerprint(hashes.SHA256()).hex(),
            not_before=min(max(leaf.not_valid_before_utc, FIRST), LAST),
            not_after=min(max(leaf.not_valid_after_utc, FIRST), LAST),
        )
    except (ValueError, TypeError, OverflowError, binascii.Error, UnsupportedAlgorithm):
        return None


def _names(leaf: x509.Certificate) -> list[str]:
    """Return the names in a certificate. If they are unreadable, return [], so that the validity can still be shown."""
    try:
        names = names_of(leaf)
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension):
        return []
    return [name for name in names[:MOST_NAMES] if len(name) <= MAX_NAME and name.isprintable()]


def _namers(value: Any) -> list[list[str]]:
    rows = value[:MOST_NAMERS] if isinstance(value, list) else []
    pairs = [row for row in rows if isinstance(row, list) and len(row) == 2]
    return [[engine, _path(path)] for engine, path in pairs if engine in list(Engine) and _path(path)]


def _path(value: Any) -> str:
    """Return an absolute path; "" for anything else."""
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        return ""
    return value if len(value.encode()) <= MAX_PATH else ""


def _text(value: Any) -> str:
    return _shown(value) if isinstance(value, str) else ""


def _shown(text: str) -> str:
    """Return the text without control characters, at most MAX_TEXT characters."""
    return "".join(filter(str.isprintable, text[: MAX_TEXT * 2]))[:MAX_TEXT]


def _mappings(value: Any, most: int) -> list[Mapping[str, Any]]:
    rows = value[:most] if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, dict)]
