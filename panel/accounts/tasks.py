"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from celery import shared_task

from panel.accounts.services import links


@shared_task
def password_forgotten(name: str) -> None:
    """Mail a link for a new password, if an account has this name or address."""
    links.password_forgotten(name)
