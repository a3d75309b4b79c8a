"""Limits for data from a host. The panel closes a connection that exceeds a limit, because a host may be compromised.

Without these limits, Paramiko accepts lengths of up to 4 GiB before a host has proven its key, and stores data that
exceeds a channel's window. The limits are for packets, banner lines, channel buffers and SFTP replies.
"""

from __future__ import annotations

from typing import Any

import paramiko
from paramiko.buffered_pipe import BufferedPipe
from paramiko.packet import Packetizer

MAX_PACKET_BYTES = 1024 * 1024  # OpenSSH sends at most 256 KiB
MAX_BANNER_BYTES = 64 * 1024  # RFC 4253, 4.2: 255 per line, and preceding lines
MAX_SFTP_BYTES = 1024 * 1024  # OpenSSH's replies have at most 256 KiB
# Unprocessed messages of an agent: enough for the longest operation with its events.
MAX_WAITING_EVENTS = 10_000
MAX_WAITING_BYTES = 64 * 1024 * 1024
MAX_STDERR_BYTES = 16 * 1024 * 1024  # agents write nothing there, shell start-up files little


class TooMuch(paramiko.SSHException):
    """Error: the host exceeded a limit for data; the message names the limit."""


class BoundedPacketizer(Packetizer):
    """Paramiko's Packetizer with limits for the size of a packet and of all data before the key exchange
    (the banner).
    """

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        if n > MAX_PACKET_BYTES:
            raise TooMuch(f"the host announced a packet of {n} bytes, more than {MAX_PACKET_BYTES}")
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
    """Buffer of a channel with a size limit. Raises TooMuch if the host sends more data than the channel's window
    permits.
    """

    limit: int

    def feed(self, data: Any) -> None:
        if len(self) + len(data) > self.limit:
            raise TooMuch("the host sent more data on a channel than the panel allowed")
        super().feed(data)


def bounded(channel: paramiko.Channel) -> paramiko.Channel:
    """Limit the sizes of a newly opened channel's buffers; return the channel.

    The buffers are changed and not replaced, because they may already contain data.
    """
    for pipe in (channel.in_buffer, channel.in_stderr_buffer):
        pipe.limit = channel.in_window_size  # type: ignore[attr-defined]
        pipe.__class__ = _BoundedPipe
    return channel


class BoundedSftp(paramiko.SFTPClient):
    """SFTP client with a timeout, and with a limit for the size of a reply."""

    @classmethod
    def over(cls, transport: paramiko.Transport, timeout_s: float) -> BoundedSftp:
        channel = bounded(transport.open_session(timeout=timeout_s))
        channel.settimeout(timeout_s)
        channel.invoke_subsystem("sftp")
        return cls(channel)

    def _read_all(self, n: int) -> bytes:
        if n > MAX_SFTP_BYTES:
            raise TooMuch(f"the host announced an SFTP reply of {n} bytes, more than {MAX_SFTP_BYTES}")
        read: bytes = super()._read_all(n)  # type: ignore[misc]
        return read
