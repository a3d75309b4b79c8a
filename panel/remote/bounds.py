"""How much of a host's the panel takes in before it closes the connection: the host may be anybody's by now.

Paramiko believes lengths of up to 4 GiB before a host has even proven its key, and keeps whatever is sent beyond a
channel's window. Here a packet, a line of the banner, what waits in a channel and an SFTP reply have an end each.
"""

from __future__ import annotations

from typing import Any

import paramiko
from paramiko.buffered_pipe import BufferedPipe
from paramiko.packet import Packetizer

MAX_PACKET_BYTES = 1024 * 1024  # OpenSSH sends none above 256 KiB
MAX_BANNER_BYTES = 64 * 1024  # RFC 4253, 4.2: 255 a line, and lines before it
MAX_SFTP_BYTES = 1024 * 1024  # OpenSSH's replies end at 256 KiB
# What may wait of an agent's lines: the longest, and what belongs to it.
MAX_WAITING_EVENTS = 10_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
MAX_STDERR_BYTES = 16 * 1024 * 1024  # an agent says nothing there, a login's start-up files little


class TooMuch(paramiko.SSHException):
    """The host sent more than it may; the message says of what."""


class BoundedPacketizer(Packetizer):
    """Packets and the banner of a connection, read up to a length."""

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MAX_PACKET_BYTES:
            raise TooMuch(f"it announced a packet of {n} bytes, more than {MAX_PACKET_BYTES}")
        read: bytes = super().read_all(n, check_rekey)
        return read

    _banner = 0

    def _read_timeout(self, timeout: float) -> bytes:
        part: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._banner += len(part)
        if self._banner > MAX_BANNER_BYTES:
            raise TooMuch(f"the host sent more than {MAX_BANNER_BYTES} bytes before the key exchange")
        return part


class _BoundedPipe(BufferedPipe):  # type: ignore[type-arg]
    """What waits in a channel to be read: no more than the window that the host was given."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def feed(self, data: Any) -> None:
        if len(self) + len(data) > self._limit:
            raise TooMuch("it sent more on a channel than it was told that it may")
        super().feed(data)


def bounded(channel: paramiko.Channel) -> paramiko.Channel:
    """The channel, just opened, with an end to what it keeps."""
    channel.in_buffer = _BoundedPipe(channel.in_window_size)
    channel.in_stderr_buffer = _BoundedPipe(channel.in_window_size)
    return channel


class BoundedSftp(paramiko.SFTPClient):
    """SFTP whose replies have an end, and come in time."""

    @classmethod
    def over(cls, transport: paramiko.Transport, timeout_s: float) -> BoundedSftp:
        channel = bounded(transport.open_session(timeout=timeout_s))
        channel.settimeout(timeout_s)
        channel.invoke_subsystem("sftp")
        return cls(channel)

    def _read_all(self, n: int) -> bytes:
        if n > MAX_SFTP_BYTES:
            raise TooMuch(f"it announced an SFTP reply of {n} bytes, more than {MAX_SFTP_BYTES}")
        read: bytes = super()._read_all(n)  # type: ignore[misc]
        return read
