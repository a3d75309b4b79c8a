"""Thin tasks: load, call the service, nothing else."""

from __future__ import annotations

from celery import shared_task

from panel.audit import retention


@shared_task
def forget() -> None:
    """Forget old entries of the audit trail."""
    retention.old_forget()
