"""What can go wrong between the panel and a host: who is at fault, what to do, and whether to try again.

No message holds a secret: keys, passwords and file contents never reach an exception.
"""

from __future__ import annotations

from typing import Any

from panel.core.errors import ApplicationError


class RemoteError(ApplicationError):
    """Something between the panel and a host; every other error of this package is one."""


class HostUnreachable(RemoteError):
    def __init__(self, host: str, endpoint: str, reason: str) -> None:
        super().__init__(
            f"{host} does not answer at {endpoint}: {reason}. Check its address, its port and that sshd runs there.",
            code="host_unreachable",
            retry=True,
        )


class HostKeyUnknown(RemoteError):
    """No key is pinned yet. Nothing but the key exchange took place: no user name, no secret was sent."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"The host key of {host} is not trusted yet. Compare its fingerprint with the one on the machine "
            f"(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then confirm it.",
            code="host_key_unknown",
        )


class HostKeyChanged(RemoteError):
    """The host offers another key than the pinned one. The connection was closed before authentication.

    `offered` is the key line that it offers now, "" when it has none of the pinned type.
    """

    def __init__(self, host: str, offered: str, *, pinned: str, found: str) -> None:
        super().__init__(
            f"{host} answers with another host key than the one that is trusted ({found or 'none'} instead of "
            f"{pinned}). Nothing was sent. Either the machine was set up anew, then confirm its new key; or somebody "
            f"stands between the panel and the machine.",
            code="host_key_changed",
        )
        self.offered = offered


class AuthenticationRefused(RemoteError):
    def __init__(self, host: str, username: str, offers: str) -> None:
        super().__init__(
            f"{host} refuses {offers} for the user {username!r}. Check the user name, and that the key is in that "
            f"user's ~/.ssh/authorized_keys or the password is right.",
            code="authentication_refused",
        )


class SudoRefused(RemoteError):
    def __init__(self, host: str, username: str, reason: str) -> None:
        super().__init__(
            f"sudo on {host} does not let {username!r} run the agent: {reason}. Allow it in sudoers (NOPASSWD, or "
            f"store the sudo password), or connect as root.",
            code="sudo_refused",
        )


class AgentUnavailable(RemoteError):
    """The agent could not be put on the host or does not start there."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"The agent does not start on {host}: {reason}", code="agent_unavailable")


class ConnectionLost(RemoteError):
    """The channel closed while a request was running. What the agent was doing it finishes or undoes by itself."""

    def __init__(self, host: str, operation: str) -> None:
        super().__init__(
            f"The connection to {host} was lost during {operation!r}. The agent finishes or undoes what it had begun; "
            f"ask for its status.",
            code="connection_lost",
            retry=True,
        )


class CallTimeout(RemoteError):
    def __init__(self, host: str, operation: str, seconds: float) -> None:
        super().__init__(
            f"{host} did not finish {operation!r} in {seconds:g} s; it was asked to cancel.", code="timeout", retry=True
        )


class OperationRefused(RemoteError):
    """The agent answered with an error; `code` and `detail` are its own (agents/protocol.py)."""

    def __init__(self, host: str, operation: str, code: str, message: str, detail: dict[str, Any]) -> None:
        super().__init__(message, code=code, retry=code == "busy")
        self.host = host
        self.operation = operation
        self.detail = detail


class InvalidKey(RemoteError):
    """A private or a host key that cannot be read."""

    def __init__(self, message: str, *, field: str = "private_key") -> None:
        super().__init__(message, field=field, code="invalid_key")
