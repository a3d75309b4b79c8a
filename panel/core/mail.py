"""Mail server of the panel, and delivery of mails.

Administrators set the mail server on a page; otherwise PADDOCK_SMTP_* of the environment are used.
"""

from __future__ import annotations

import smtplib
from dataclasses import dataclass, field
from email.utils import parseaddr
from uuid import UUID, uuid4

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection

from panel.core.models import MailServer


class Refused(Exception):
    """Raised for a permanent failure of a mail; the message contains the solution."""


class Unreachable(Exception):
    """Raised for a temporary failure of a mail."""


@dataclass(frozen=True)
class Server:
    """Settings of a mail server. `security` is starttls, tls or none."""

    host: str
    port: int
    username: str
    password: str = field(repr=False)
    security: str
    sender: str
    is_stored: bool  # set on the page, not by the environment

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def server() -> Server | None:
    """Return the mail server in use; None if none is configured."""
    row = MailServer.objects.first()
    if row is not None:
        return Server(row.host, row.port, row.username, row.password, row.security, row.sender, is_stored=True)
    if not settings.EMAIL_HOST:
        return None
    return Server(
        host=settings.EMAIL_HOST,
        port=settings.EMAIL_PORT,
        username=settings.EMAIL_HOST_USER,
        password=settings.EMAIL_HOST_PASSWORD,
        security="starttls" if settings.EMAIL_USE_TLS else "tls" if settings.EMAIL_USE_SSL else "none",
        sender=settings.DEFAULT_FROM_EMAIL,
        is_stored=False,
    )


def has_server() -> bool:
    return server() is not None


def deliver(message: EmailMultiAlternatives, timeout_s: float | None = None) -> str:
    """Send a message to one recipient from the mail server's sender address; return a sentence such as "Accepted by
    mx.example.com.". Raises Refused for a permanent failure, Unreachable for a temporary failure.
    """
    found = server()
    if found is None:
        raise Refused("No mail server is configured. Set a mail server under Settings, Mail, or in PADDOCK_SMTP_HOST.")
    message.from_email = found.sender
    message.extra_headers.setdefault("Message-ID", new_id(sender=found.sender))
    message.connection = get_connection(
        host=found.host,
        port=found.port,
        username=found.username,
        password=found.password,
        use_tls=found.security == "starttls",
        use_ssl=found.security == "tls",
        timeout=timeout_s or settings.EMAIL_TIMEOUT,
    )
    try:
        message.send()
    except smtplib.SMTPRecipientsRefused as error:
        (code, words) = next(iter(error.recipients.values()))
        raise _by_code(found, code, words) from error
    except smtplib.SMTPResponseException as error:
        raise _by_code(found, error.smtp_code, error.smtp_error) from error
    except smtplib.SMTPNotSupportedError as error:
        raise Refused(f"{found.host} does not support the configured options: {error}") from error
    except (smtplib.SMTPException, OSError) as error:
        raise Unreachable(f"{found.address} is not usable: {error}") from error
    return f"Accepted by {found.host}."


def _by_code(found: Server, code: int, words: str | bytes) -> Exception:
    """Return the exception for an SMTP status: Refused for 5xx (RFC 5321 section 4.2.1), otherwise Unreachable."""
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    said = f"{found.host} responded with {code} {text}"[:300]
    return Refused(said) if code >= 500 else Unreachable(said)


def new_id(name: UUID | None = None, sender: str = "") -> str:
    """Return a Message-ID in the domain of `sender`, by default the domain of settings.DEFAULT_FROM_EMAIL.

    Spam filters could consider a Message-ID with the panel's host name forged.
    """
    domain = parseaddr(sender or settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "paddock.invalid"
    return f"<{name or uuid4()}@{domain}>"
