"""Host jobs (checks, installations, service actions) as a kind of job: find, show and cancel them (core/jobs.py)."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.core.jobs import JobKind, JobShown, JobStatus
from panel.hosts.models import HostJob
from panel.hosts.selectors import host_jobs_visible
from panel.hosts.services.jobs import UNFINISHED, host_job_cancel


def _find(user: User, uuid: UUID) -> HostJob | None:
    return host_jobs_visible(user).filter(uuid=uuid).first()


def _load(uuid: UUID) -> HostJob | None:
    return HostJob.objects.select_related("host", "requested_by").filter(uuid=uuid).first()


def _words(row: HostJob) -> str:
    match row.status:
        case JobStatus.QUEUED:
            return row.progress or _("Waiting for a free worker.")
        case JobStatus.RUNNING:
            return row.progress or _("The job is running on the host.")
        case JobStatus.CANCELLED:
            return _("The job was cancelled. Nothing was changed.")
    return ""


def _shown(row: HostJob) -> JobShown:
    return JobShown(
        uuid=row.uuid,
        title=str(row),
        status=row.status,
        status_words=row.get_status_display(),
        words=_words(row),
        is_live=row.status in UNFINISHED,
        owner=str(row.requested_by or _("system")),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
        error_title=_("Error"),
        cancel_url=reverse("hosts:cancel", args=[row.host.name, row.pk]) if row.status == JobStatus.QUEUED else "",
        cancel_label=_("Cancel"),
    )


JOB = JobKind(
    name="host_job",
    find=_find,
    load=_load,
    mark=lambda row: (row.status, row.progress, row.error),
    is_live=lambda row: row.status in UNFINISHED,
    shown=_shown,
    may_cancel=lambda user, row: may(user, Action.ADMINISTER),
    cancel=lambda actor, row: host_job_cancel(actor=actor, job=row),
)
