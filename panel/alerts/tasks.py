"""Celery tasks of alerts. They only call services."""

from __future__ import annotations

from celery import shared_task

from panel.alerts import services


@shared_task
def send() -> None:
    services.alerts_send()
