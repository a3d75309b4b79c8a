"""Exceptions for errors between the panel and a host, with the cause, the solution, and whether to retry.

Messages contain no secrets: keys, passwords and file contents never reach an exception.
"""

from __future__ import annotations

from panel.core.errors import ApplicationError


class RemoteError(ApplicationError):
    """Base class of all exceptions for errors between the panel and a host."""


class HostUnreachable(RemoteError):
    def __init__(self, host: str, endpoint: str, reason: str) -> None:
        super().__init__(
            f"{host} is not reachable at {endpoint}: {reason}. Check its address, its port, and that sshd is running.",
            code="host_unreachable",
            retry=True,
        )


class ForwardingRefused(HostUnreachable):
    """Error: the bastion does not allow port forwarding with the panel's key."""


class HostKeyUnknown(RemoteError):
    """Error: no host key is trusted yet. No user name or secret was sent."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"The host key of {host} is not trusted yet. Compare the fingerprint with the fingerprint on the host "
            "(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then confirm the key.",
            code="host_key_unknown",
        )


class HostKeyChanged(RemoteError):
    """Error: the host offers another key than the trusted (pinned) one. The connection ended before authentication.

    `offered` is the line of the offered key; "" if the host has no key of the pinned key's type.
    """

    def __init__(self, host: str, offered: str, *, pinned: str, found: str) -> None:
        super().__init__(
            f"{host} presents a different host key ({found or 'none'}) than the trusted key ({pinned}). Paddock "
            "sent nothing. If the host was reinstalled, confirm the new key; otherwise somebody may be "
            "intercepting the connection.",
            code="host_key_changed",
        )
        self.offered = offered


class HostCertificateRefused(RemoteError):
    """Error: a host without a pinned key presents a certificate that is not valid for this host. No secret was sent."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(
            f"{host} presents an SSH certificate that Paddock does not accept: {reason}. Paddock sent nothing. Let "
            "the authority sign the host's key again, or confirm the key's fingerprint on the host's page.",
            code="host_certificate_refused",
        )


class AuthenticationRefused(RemoteError):
    def __init__(self, host: str, username: str, offers: str) -> None:
        super().__init__(
            f"{host} rejected {offers} for the user {username!r}. Check the user name. Check that the user's "
            "~/.ssh/authorized_keys contains the key, or that the password is correct.",
            code="authentication_refused",
        )


class SudoRefused(RemoteError):
    def __init__(self, host: str, username: str, reason: str) -> None:
        super().__init__(
            f"sudo on {host} does not allow {username!r} to run the agent: {reason}. Allow the user to run commands "
            "as root in sudoers (NOPASSWD, or store the sudo password), or connect as root.",
            code="sudo_refused",
        )


class AgentUnavailable(RemoteError):
    """Error: the agent could not be uploaded or started on the host."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f"The agent does not start on {host}: {reason}", code="agent_unavailable")


class UploadFailed(RemoteError):
    """Error: a file could not be uploaded to the agent's folder on the host."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(
            f"Paddock could not upload a file to {host}: {reason}. Check the free disk space of the folder .paddock "
            "in the home folder of Paddock's account on the host.",
            code="upload_failed",
            retry=True,
        )


class ConnectionLost(RemoteError):
    """Error: the connection closed during a request. Without a connection, the agent still finishes or rolls back its
    work.
    """

    def __init__(self, host: str, operation: str) -> None:
        super().__init__(
            f"The connection to {host} broke during the operation {operation!r}. The agent completes or rolls back "
            "its work. Check the host for the result.",
            code="connection_lost",
            retry=True,
        )


class ProtocolBroken(ConnectionLost):
    """Error: the host violated the agent protocol, for example by a line that is too long. The
    connection was closed.
    """

    def __init__(self, host: str, operation: str, reason: str) -> None:
        RemoteError.__init__(
            self,
            f"Paddock closed the connection to {host} during the operation {operation!r}: {reason}. Paddock's agent "
            "never does this. Check which programs run on the host before you use the host again.",
            code="protocol_broken",
        )


class CallTimeout(RemoteError):
    def __init__(self, host: str, operation: str, seconds: float) -> None:
        super().__init__(
            f"{host} did not respond within {seconds:g} s."
            if operation == "hello"
            else (
                f"{host} did not finish the operation {operation!r} within {seconds:g} s. Paddock asked the agent "
                "to cancel the operation."
            ),
            code="timeout",
            retry=True,
        )


class OperationRefused(RemoteError):
    """Error: the agent refused a request, or failed to carry it out. `code` and `detail` are those that the agent sent
    (agents/protocol.py).
    """

    def __init__(self, host: str, operation: str, code: str, message: str, detail: dict[str, object]) -> None:
        super().__init__(message, code=code, retry=code == "busy")
        self.host = host
        self.operation = operation
        self.detail = detail


class InvalidKey(RemoteError):
    """Error: a private key or a host key cannot be parsed, or its type is not supported."""

    def __init__(self, message: str, *, field: str = "private_key") -> None:
        super().__init__(message, field=field, code="invalid_key")
