"""Forbidden destination addresses: metadata services of clouds, and link-local addresses; shared by agent and panel.

Addresses are checked in every notation of inet_aton(3) (0xa9fea9fe, 2852039166, 0251.0376.43518). For IPv6 addresses
the embedded IPv4 address is checked too: mapped, compatible, translated (NAT64, RFC 6052 and 8215), 6to4 (RFC 3056),
Teredo (RFC 4380) or ISATAP (RFC 5214).
"""

from __future__ import annotations

import socket
from typing import Any, Dict, List, Tuple

_METADATA: Dict[str, str] = {
    "169.254.169.254": "the metadata service of most clouds",
    "100.100.100.200": "the metadata service of Alibaba Cloud",
    "168.63.129.16": "the platform service of Azure",
    "192.0.0.192": "the metadata service of Oracle Cloud",
    "fd00:ec2::23": "the credentials service of AWS",
    "fd00:ec2::123": "the platform service of AWS",
    "fd00:ec2::253": "the platform service of AWS",
    "fd00:ec2::254": "the metadata service of AWS",
    "fd20:ce::254": "the metadata service of Google Cloud",
    "fd00:c1::a9fe:a9fe": "the metadata service of Oracle Cloud",
    "fd00:42::42": "the metadata service of Scaleway",
}
# Names of metadata services inside a cloud.
_NAMES = {
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.tencentyun.com",
    "metadata.oraclecloud.com",
    "metadata.platformequinix.com",
    "instance-data",
    "instance-data.ec2.internal",
}
_MOST_FORMS = 4


def packed(text: str) -> bytes | None:
    """Return the 4 or 16 bytes of an IP address in any notation, without brackets; a zone such as %eth0 is ignored.
    None if `text` is not an IP address.
    """
    text = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    text = text.split("%", 1)[0]
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        return None
    try:
        if ":" in text:
            return bytes(socket.inet_pton(socket.AF_INET6, text))
        return bytes(socket.inet_aton(text[:-1] if text.endswith(".") else text))
    except OSError:
        return None


def written(address: bytes) -> str:
    """Return the usual notation of an IP address of 4 or 16 bytes."""
    return str(socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address))


def carried(address: bytes) -> list[bytes]:
    """Return the IPv4 addresses embedded in an IPv6 address, at most _MOST_FORMS, as 4 bytes each; [] for an IPv4
    address.
    """
    if len(address) != 16:
        return []
    found: List[bytes] = []
    zero = bytes(10)
    if address[:12] in (zero + b"\xff\xff", bytes(12), bytes(8) + b"\xff\xff\0\0"):
        found.append(address[12:])  # mapped, compatible, translated (RFC 2765)
    if address[:12] == b"\0\x64\xff\x9b" + bytes(8) or address[:6] == b"\0\x64\xff\x9b\0\x01":
        found.append(address[12:])  # NAT64
        found.append(address[6:8] + address[9:11])  # NAT64 with a prefix of 48 bits
    if address[:2] == b"\x20\x02":
        found.append(address[2:6])  # 6to4
    if address[:4] == b"\x20\x01\0\0":
        found += [address[4:8], bytes(byte ^ 0xFF for byte in address[12:])]  # Teredo: the server, the client
    if address[8:12] in (b"\0\0\x5e\xfe", b"\x02\0\x5e\xfe"):
        found.append(address[12:])  # ISATAP
    return found[:_MOST_FORMS]


_KNOWN: Dict[bytes, str] = {}


def _known() -> Dict[bytes, str]:
    if not _KNOWN:
        _KNOWN.update((packed(text) or b"", words) for text, words in _METADATA.items())
    return _KNOWN


def why_refused(text: str) -> str:
    """Return the reason why an address or name is forbidden as a destination, for example "a link-local address, where
    clouds keep secrets"; "" if it is allowed. Names are not resolved: only names of metadata services are forbidden.
    """
    if text.lower().rstrip(".") in _NAMES:
        return "the name of a cloud's metadata service"
    address = packed(text)
    if address is None:
        return ""
    for form in (address, *carried(address)):
        if form in _known():
            return _known()[form]
        if form[:2] == b"\xa9\xfe" and len(form) == 4:
            return "a link-local address, where clouds keep secrets"
        if len(form) == 16 and form[0] == 0xFE and form[1] & 0xC0 == 0x80:
            return "a link-local address, where clouds keep secrets"
    return ""


def resolved(name: str, port: int = 0) -> list[Tuple[Any, ...]]:
    """Resolve a name for TCP by getaddrinfo(3), and return its result. Raise OSError if the name is unknown, or
    Refused, an OSError, if it resolves to a forbidden address.
    """
    host = name.encode("ascii") if name.isascii() else name  # as a str, an empty or long label is a UnicodeError
    found: List[Tuple[Any, ...]] = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
    for entry in found:
        reason = why_refused(str(entry[4][0]))
        if reason:
            raise Refused("%s resolves to %s, %s" % (name, entry[4][0], reason))
    return found


class Refused(OSError):
    """Error for a name or address that is forbidden as a destination."""
