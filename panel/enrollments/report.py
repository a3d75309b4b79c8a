"""Report that a new host sends about itself when it enrolls. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOST_CHARACTERS = 4096


@dataclass(frozen=True)
class Report:
    """Report of a new host about itself.
    `name` is the host name that the host itself reports, `port` its SSH port, `host_key` a line as in
    ssh_host_ed25519_key.pub.
    """

    name: str
    port: int
    host_key: str


def report_of(values: Mapping[str, str]) -> Report:
    """Parse a host's report from form fields; raise ValueError with the reason, which the enrollment script prints."""
    name, port, host_key = (str(values.get(field, "")) for field in ("name", "port", "host_key"))
    if not name or not host_key:
        raise ValueError(
            "The fields name, port, and host_key are required. Run the command of the enrollment again without changes."
        )
    if len(name) > MOST_CHARACTERS or len(host_key) > MOST_CHARACTERS:
        raise ValueError("A field of the request is too long. Run the command of the enrollment again without changes.")
    if not port.isascii() or not port.isdecimal() or not 1 <= int(port[:6]) <= 65535:
        raise ValueError(f"The port {port[:20]!r} of sshd is not a number from 1 to 65535.")
    return Report(name, int(port), host_key)
