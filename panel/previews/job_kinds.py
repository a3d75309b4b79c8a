"""Previews as a kind of job: the data that the pages and the API of all jobs need (core/jobs.py)."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.core.jobs import JobKind, JobShown, JobStatus
from panel.previews.models import Preview
from panel.previews.selectors import may_deploy, previews_visible
from panel.previews.services import preview_cancel


def _find(user: User, uuid: UUID) -> Preview | None:
    return previews_visible(user).filter(uuid=uuid).first()


def _load(uuid: UUID) -> Preview | None:
    return Preview.objects.select_related("requested_by", "deployment__host").filter(uuid=uuid).first()


def _words(preview: Preview) -> str:
    if preview.status == JobStatus.SUCCEEDED:
        return preview.summary
    if preview.status == JobStatus.QUEUED:
        return _("Waiting for a free worker.")
    if preview.status == JobStatus.RUNNING:
        return _("Paddock sends the same requests to private copies of the live version and of the draft.")
    return ""


def _shown(preview: Preview) -> JobShown:
    is_stoppable = not preview.is_finished and not preview.cancel_requested
    return JobShown(
        uuid=preview.uuid,
        title=str(preview),
        status=preview.status,
        status_words=preview.get_status_display(),
        words=_words(preview),
        is_live=not preview.is_finished,
        owner=str(preview.requested_by or ""),
        created_at=preview.created_at,
        started_at=preview.started_at,
        finished_at=preview.finished_at,
        progress_label=preview.progress,
        error=preview.error,
        error_title=_("Error"),
        cancel_url=reverse("previews:cancel", args=[preview.uuid]) if is_stoppable else "",
        cancel_label=_("Cancel the preview"),
    )


JOB = JobKind(
    name="preview",
    find=_find,
    load=_load,
    mark=lambda row: (row.status, row.progress, row.error, row.cancel_requested),
    is_live=lambda row: not row.is_finished,
    shown=_shown,
    cancel=lambda actor, row: preview_cancel(actor=actor, preview=row),
    may_cancel=lambda user, row: may_deploy(user, row.deployment),
    region=lambda row: "previews/live.html",
    context=lambda row: {"preview": row},
    page=lambda row: reverse("previews:detail", args=[row.uuid]),
)
