"""The kind of job "certificate_order": how pages find and show orders of certificates (core/jobs.py)."""

from __future__ import annotations

from uuid import UUID

from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.certificates.choices import OrderStep
from panel.certificates.models import Order
from panel.certificates.selectors import orders_visible, step_lines
from panel.core.jobs import JobKind, JobShown, JobStatus


def _find(user: User, uuid: UUID) -> Order | None:
    return orders_visible(user).filter(uuid=uuid).first()


def _load(uuid: UUID) -> Order | None:
    return Order.objects.select_related("automatic__site", "requested_by").filter(uuid=uuid).first()


def _mark(row: Order) -> object:
    return (row.status, row.step, row.progress, row.retry_at, row.error, row.seen, row.records.count())


def _words(row: Order) -> str:
    match row.status:
        case JobStatus.QUEUED if row.retry_at:
            time = f"{row.retry_at:%Y-%m-%d %H:%M:%S}"
            return _("Waiting until %(time)s UTC for the next attempt. %(reason)s") % {
                "time": time,
                "reason": row.progress,
            }
        case JobStatus.QUEUED:
            return row.progress or _("Waiting for a free worker.")
        case JobStatus.RUNNING:
            return f"{OrderStep(row.step).label}."
        case JobStatus.SUCCEEDED:
            return _("Every listener that Paddock checked presents the certificate.")
    return ""


def _shown(row: Order) -> JobShown:
    return JobShown(
        uuid=row.uuid,
        title=str(row),
        status=row.status,
        status_words=row.get_status_display(),
        words=_words(row),
        is_live=not row.is_finished,
        owner=str(row.requested_by or _("system")),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
        error_title=_("Error"),
    )


JOB = JobKind(
    name="certificate_order",
    find=_find,
    load=_load,
    mark=_mark,
    is_live=lambda row: not row.is_finished,
    shown=_shown,
    region=lambda row: "certificates/job.html",
    context=lambda row: {"order": row, "lines": step_lines(row)},
)
