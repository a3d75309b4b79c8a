"""Deliveries of reports as a kind of job: the data that the pages and the API of all jobs need (core/jobs.py)."""

from __future__ import annotations

from uuid import UUID

from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.core.jobs import JobKind, JobShown, JobStatus
from panel.reports.models import Delivery
from panel.reports.selectors import reports_visible


def _find(user: User, uuid: UUID) -> Delivery | None:
    rows = Delivery.objects.select_related("report", "requested_by").filter(uuid=uuid)
    return rows.filter(report__in=reports_visible(user).values("pk")).first()


def _load(uuid: UUID) -> Delivery | None:
    return Delivery.objects.select_related("report", "requested_by").filter(uuid=uuid).first()


def _is_live(row: Delivery) -> bool:
    return row.status in (JobStatus.QUEUED, JobStatus.RUNNING)


def _words(row: Delivery) -> str:
    if row.status == JobStatus.QUEUED and row.attempts:
        return _("Waiting until %(time)s UTC for the next attempt.") % {"time": f"{row.due_at:%Y-%m-%d %H:%M:%S}"}
    return _("Waiting for a free worker.") if row.status == JobStatus.QUEUED else row.progress


def _shown(row: Delivery) -> JobShown:
    return JobShown(
        uuid=row.uuid,
        title=str(row),
        status=row.status,
        status_words=row.get_status_display(),
        words=_words(row),
        is_live=_is_live(row),
        owner=str(row.requested_by or _("system")),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
        error_title=_("Error"),
        log="".join(f"{line['at']} {line['words']} ({line['seconds']} s)\n" for line in row.log),
    )


JOB = JobKind(
    name="delivery",
    find=_find,
    load=_load,
    mark=lambda row: (row.status, row.progress, row.attempts, row.error),
    is_live=_is_live,
    shown=_shown,
)
