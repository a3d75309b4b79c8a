"""A mail server of the tests' own, reached over SMTP as any other."""

from __future__ import annotations

import email
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller
from django.conf import LazySettings

from tests.support.ports import free_port


class Mailbox:
    """`answers` are given to the next messages, one each; then all are taken."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.answers: list[str] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answers:
            return self.answers.pop(0)
        self.messages.append(email.message_from_bytes(envelope.content, policy=default))  # type: ignore[arg-type]
        return "250 OK"


@contextmanager
def mail_server(settings: LazySettings) -> Iterator[Mailbox]:
    """Runs, and is the panel's, as long as the block does."""
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=free_port(), ready_timeout=60)
    controller.start()  # returns once it answers
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", controller.port, False
    settings.EMAIL_TIMEOUT = 120
    settings.DEFAULT_FROM_EMAIL, settings.PANEL_URL = "Paddock <panel@example.com>", "https://panel.example.com"
    yield box
    controller.stop()
