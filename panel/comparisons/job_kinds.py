"""Server comparisons as a kind of job: the data that the pages and the API of all jobs need (core/jobs.py). The page of
a job shows the comparison, and later the site's move to a compared web server.
"""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.comparisons import results
from panel.comparisons.models import Comparison
from panel.comparisons.selectors import comparisons_visible
from panel.comparisons.services import comparison_cancel
from panel.core.jobs import JobKind, JobShown, JobStatus


def _find(user: User, uuid: UUID) -> Comparison | None:
    return comparisons_visible(user).filter(uuid=uuid).first()


def _load(uuid: UUID) -> Comparison | None:
    return Comparison.objects.select_related("site", "run", "switch", "requested_by").filter(uuid=uuid).first()


def _mark(comparison: Comparison) -> object:
    run, switch = comparison.run, comparison.switch
    return (
        comparison.status,
        comparison.row_version,
        run and run.row_version,
        switch and (switch.status, switch.error),
    )


def _words(comparison: Comparison) -> str:
    if comparison.remains:
        return _("Paddock could not remove some copies, and tries again.")
    if comparison.cancel_requested and not comparison.outcome:
        return _("Paddock is cancelling the comparison and removes the copies first.")
    if comparison.status == JobStatus.QUEUED and not comparison.outcome:
        return _("Waiting for a free worker.")
    return f"{comparison.get_phase_display()}."


def _shown(comparison: Comparison) -> JobShown:
    course = {} if comparison.is_finished else results.course(comparison)
    is_stoppable = not comparison.is_finished and not comparison.cancel_requested and not comparison.outcome
    return JobShown(
        uuid=comparison.uuid,
        title=str(comparison),
        status=comparison.status,
        status_words=comparison.get_status_display(),
        words=_words(comparison),
        is_live=comparison.is_live,
        owner=str(comparison.requested_by or ""),
        created_at=comparison.created_at,
        started_at=comparison.started_at,
        finished_at=comparison.finished_at,
        done=course.get("done", 0),
        total=course.get("total", 0),
        progress_label=comparison.run.progress if comparison.run else "",
        error=comparison.error,
        error_title=_("Error"),
        cancel_url=reverse("comparisons:cancel", args=[comparison.uuid]) if is_stoppable else "",
        cancel_label=_("Cancel the comparison"),
    )


def _context(comparison: Comparison) -> dict[str, object]:
    return {"comparison": comparison} if comparison.is_finished else {**results.course(comparison)}


JOB = JobKind(
    name="comparison",
    find=_find,
    load=_load,
    mark=_mark,
    is_live=lambda row: row.is_live,
    shown=_shown,
    cancel=lambda actor, row: comparison_cancel(actor=actor, comparison=row),
    may_cancel=lambda user, row: row.site is not None and may(user, Action.BENCHMARK, row.site.team),
    region=lambda row: "comparisons/switch_live.html" if row.is_finished else "comparisons/live.html",
    context=_context,
    page=lambda row: reverse("comparisons:detail", args=[row.uuid]),
)
