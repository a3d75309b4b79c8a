"""The kind of job "publication": how pages find, show, and cancel publications (core/jobs.py)."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.core.jobs import JobKind, JobShown, JobStatus
from panel.publishing.models import Publication
from panel.publishing.selectors import publications_visible
from panel.publishing.services import publication_cancel


def _find(user: User, uuid: UUID) -> Publication | None:
    return publications_visible(user).filter(uuid=uuid).first()


def _load(uuid: UUID) -> Publication | None:
    return Publication.objects.select_related("requested_by", "site", "release").filter(uuid=uuid).first()


def _words(row: Publication) -> str:
    if row.status == JobStatus.QUEUED:
        return _("Waiting for a free worker.")
    if row.status == JobStatus.RUNNING:
        return _("Paddock prepares the new files on each host, then replaces the old ones on all hosts.")
    if row.status == JobStatus.SUCCEEDED and row.release is not None:
        return _("Release %d is live.") % row.release.number
    return ""


def _shown(row: Publication) -> JobShown:
    is_stoppable = not row.is_finished and not row.cancel_requested
    return JobShown(
        uuid=row.uuid,
        title=str(row),
        status=row.status,
        status_words=row.get_status_display(),
        words=_words(row),
        is_live=not row.is_finished,
        owner=str(row.requested_by or ""),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        progress_label=row.progress,
        error=row.error,
        error_title=_("Error"),
        cancel_url=reverse("publishing:cancel", args=[row.uuid]) if is_stoppable else "",
        cancel_label=_("Cancel the publication"),
    )


JOB = JobKind(
    name="publication",
    find=_find,
    load=_load,
    mark=lambda row: (row.status, row.progress, row.error, row.cancel_requested, row.targets),
    is_live=lambda row: not row.is_finished,
    shown=_shown,
    cancel=lambda actor, row: publication_cancel(actor=actor, publication=row),
    may_cancel=lambda user, row: may(user, Action.DEPLOY, row.site.team),
    region=lambda row: "publishing/live.html",
    context=lambda row: {"publication": row},
    page=lambda row: reverse("publishing:detail", args=[row.uuid]),
)
