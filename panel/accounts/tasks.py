"""Celery tasks of accounts. They only call services."""

from __future__ import annotations

from celery import shared_task

from panel.accounts.services import links


@shared_task
def password_forgotten(name: str) -> None:
    """Mail a link for a new password to the account with this user name or email address, if any."""
    links.password_forgotten(name)
