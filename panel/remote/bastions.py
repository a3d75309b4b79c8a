"""Connections through a bastion: an SSH server that passes connections on to hosts which the panel cannot reach
directly (the channel type direct-tcpip of RFC 4254, section 7.2, as OpenSSH's ProxyJump uses it).

The SSH connection to the host runs inside the SSH connection to the bastion, so the bastion sees no user name, key or
password of the host. If a bastion passes a connection on to another machine, the panel sees a wrong host key, and sends
no user name or secret.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import paramiko

from panel.remote.bounds import bounded
from panel.remote.errors import ForwardingRefused, HostUnreachable, RemoteError
from panel.remote.target import Target

# Reasons of a refused channel (RFC 4254, section 5.1).
PROHIBITED, CONNECT_FAILED = 1, 2
FORWARDING_HELP = (
    "does not allow Paddock's key to pass connections on. On the bastion, add “port-forwarding” after “restrict” in "
    "the key's line of ~/.ssh/authorized_keys, and allow TCP forwarding in sshd_config (AllowTcpForwarding)"
)


@dataclass
class _Shared:
    """The panel's connection to one bastion, shared by all hosts behind this bastion. It is closed when no host uses
    it.
    """

    via: Target
    connecting: threading.Lock = field(default_factory=threading.Lock)
    transport: paramiko.Transport | None = None
    users: int = 0
    failed: tuple[float, RemoteError] | None = None  # time and error of the last failed connection


class Stream:
    """Channel through a bastion to a host, with the methods of a socket that Paramiko's transport calls."""

    def __init__(self, channel: paramiko.Channel, give_back: Callable[[], None]) -> None:
        self._channel = channel
        self._give_back: Callable[[], None] | None = give_back
        self._lock = threading.Lock()
        self.settimeout = channel.settimeout
        self.send = channel.send
        self.recv = channel.recv

    @property
    def _closed(self) -> bool:
        """True if the stream is closed; Paramiko reads this attribute of its sockets."""
        return self._give_back is None

    def shutdown(self, _how: int) -> None:
        """Close the stream. A thread that waits for data from the stream then continues."""
        self.close()

    def close(self) -> None:
        with self._lock:
            give_back, self._give_back = self._give_back, None
        if give_back is not None:
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
                self._channel.close()
            give_back()


class Bastions:
    """Open connections to bastions, shared by threads. `connect` opens an authenticated transport to a bastion.
    `timeout_s` limits the time to open a channel to a host.
    """

    def __init__(self, connect: Callable[[Target], paramiko.Transport], timeout_s: float) -> None:
        self._connect, self._timeout_s = connect, timeout_s
        self._open: dict[Target, _Shared] = {}
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def stream(self, target: Target) -> Stream:
        """Open a connection to the target through its bastion. Raises HostUnreachable, also if the bastion cannot be
        used.
        """
        assert target.via is not None
        asked_at = time.monotonic()
        shared = self._borrowed(target.via)
        try:
            channel = self._channel(self._transport(shared, target, asked_at), shared, target)
        except BaseException:
            self._given_back(shared)
            raise
        return Stream(bounded(channel), lambda: self._given_back(shared))

    def _borrowed(self, via: Target) -> _Shared:
        with self._lock:
            if self._owner != os.getpid():  # after a fork the sockets belong to the parent
                self._open, self._owner = {}, os.getpid()
            shared = self._open.setdefault(via, _Shared(via))
            shared.users += 1
            return shared

    def _given_back(self, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            if shared.users:
                return
            if self._open.get(shared.via) is shared:
                del self._open[shared.via]
        if shared.transport is not None:
            shared.transport.close()

    def _transport(self, shared: _Shared, target: Target, asked_at: float) -> paramiko.Transport:
        with shared.connecting:
            if shared.transport is not None and shared.transport.is_active():
                return shared.transport
            # An attempt failed while this thread waited; another would fail too.
            if shared.failed and shared.failed[0] > asked_at:
                raise _unusable(target, shared.failed[1])
            try:
                shared.transport = self._connect(shared.via)
            except RemoteError as error:
                shared.failed = time.monotonic(), error
                raise _unusable(target, error) from error
            return shared.transport

    def _channel(self, transport: paramiko.Transport, shared: _Shared, target: Target) -> paramiko.Channel:
        place, origin = (target.address, target.port), ("127.0.0.1", 0)
        try:
            return transport.open_channel("direct-tcpip", place, origin, timeout=self._timeout_s)
        except paramiko.ChannelException as error:
            kind = ForwardingRefused if error.code == PROHIBITED else HostUnreachable
            raise kind(target.name, target.endpoint, _refusal(shared.via, error)) from None
        except (paramiko.SSHException, OSError, EOFError) as error:
            # Either the host or the bastion is silent: the next connection gets another one to the bastion.
            with self._lock:
                if self._open.get(shared.via) is shared:
                    del self._open[shared.via]
            reason = f"no response through the bastion {shared.via.name} within {self._timeout_s:.0f} s ({error})"
            raise HostUnreachable(target.name, target.endpoint, reason) from None


def _unusable(target: Target, error: RemoteError) -> HostUnreachable:
    assert target.via is not None
    return HostUnreachable(target.name, target.endpoint, f"Paddock cannot use the bastion: {error.message.rstrip('.')}")


def _refusal(via: Target, error: paramiko.ChannelException) -> str:
    if error.code == PROHIBITED:
        return f"the bastion {via.name} {FORWARDING_HELP}"
    if error.code == CONNECT_FAILED:
        return f"the bastion {via.name} cannot connect to the host ({error.text or 'connection failed'})"
    return f"the bastion {via.name} refused to pass the connection on ({error.text or error.code})"
