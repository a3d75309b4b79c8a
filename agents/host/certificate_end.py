"""Read the expiry date of an X.509 certificate from its DER encoding (RFC 5280, 4.1.2.5).

Python decodes a certificate only if it verified the certificate. The agent's requests verify none, because a site may
have a self-signed one.
"""

from __future__ import annotations

import calendar
import time
from typing import Optional, Tuple

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def end_of(der: bytes) -> Optional[int]:
    """Return the Unix time at which a certificate in DER encoding expires; None if the bytes are not an X.509
    certificate.
    """
    try:
        fields = _contents(_contents(der, _SEQUENCE)[0], _SEQUENCE)[0]
        if fields[0] == _VERSION:
            fields = _after(fields)
        for _field in ("serialNumber", "signature", "issuer"):
            fields = _after(fields)
        validity = _contents(fields, _SEQUENCE)[0]
        return _time(_after(validity))
    except (IndexError, ValueError, OverflowError):
        return None


def _element(data: bytes) -> Tuple[int, int, int]:
    """Return (tag, start, end) of the first DER element in `data`; start and end are the bounds of its contents.
    Raise ValueError if the element is longer than the data.
    """
    length, start = data[1], 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4:
            raise ValueError("not a definite length of a certificate")
        start += count
        length = int.from_bytes(data[2:start], "big")
    if start + length > len(data):
        raise ValueError("truncated")
    return data[0], start, start + length


def _contents(data: bytes, wanted: int) -> Tuple[bytes, bytes]:
    tag, start, end = _element(data)
    if tag != wanted:
        raise ValueError("another element")
    return data[start:end], data[end:]


def _after(data: bytes) -> bytes:
    """Return the bytes of `data` that follow the first DER element."""
    return data[_element(data)[2] :]


def _time(data: bytes) -> int:
    tag, start, end = _element(data)
    text = data[start:end].decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: from 1950 to 2049
        text = ("20" if int(text[:2]) < 50 else "19") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError("not a time")
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ"))
