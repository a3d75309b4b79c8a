"""Celery tasks of the audit log. They only call services."""

from __future__ import annotations

from celery import shared_task

from panel.audit import retention


@shared_task
def forget() -> None:
    """Delete old entries of the audit log."""
    retention.old_forget()
