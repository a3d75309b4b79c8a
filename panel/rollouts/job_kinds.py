"""The kind of job "rollout": how pages find, show, and end rollouts (core/jobs.py)."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.core.jobs import JobKind, JobShown
from panel.rollouts.choices import RolloutStatus, WaveStatus
from panel.rollouts.models import Rollout
from panel.rollouts.selectors import rollouts_visible, wave_lines
from panel.rollouts.services import rollout_end, sites_of


def _find(user: User, uuid: UUID) -> Rollout | None:
    return rollouts_visible(user).filter(uuid=uuid).first()


def _load(uuid: UUID) -> Rollout | None:
    return Rollout.objects.select_related("requested_by").filter(uuid=uuid).first()


def _mark(row: Rollout) -> object:
    waves = tuple(row.waves.values_list("status", "evidence", "approved_at").order_by("position"))
    parts = row.waves.values_list("parts__deployment__status", "parts__undo__status", "parts__kept")
    return (row.status, row.error, row.progress, row.is_undoing, str(waves), tuple(parts.order_by("parts__pk")))


def _words(row: Rollout) -> str:
    match row.status:
        case RolloutStatus.SUCCEEDED:
            return _("Every wave was deployed and passed its checks.")
        case RolloutStatus.UNDONE:
            return _("Paddock rolled back every host to its previous configuration.")
        case RolloutStatus.FAILED:
            return _("Paddock could not roll back all hosts. Some hosts still have the new configuration.")
        case RolloutStatus.CANCELLED:
            return _(
                "The rollout ended early. The deployed waves keep the new configuration; the other waves were "
                "not started."
            )
        case RolloutStatus.PAUSED:
            return _("No further wave starts until somebody resumes the rollout.")
    return row.progress


def _status_words(row: Rollout) -> str:
    is_busy = row.status in (RolloutStatus.QUEUED, RolloutStatus.RUNNING)
    return _("Undoing") if row.is_undoing and is_busy else str(RolloutStatus(row.status).label)


def _shown(row: Rollout) -> JobShown:
    waves = row.waves.count()
    return JobShown(
        uuid=row.uuid,
        title=_("Rollout in %(waves)s waves") % {"waves": waves},
        status=row.status,
        status_words=_status_words(row),
        words=_words(row),
        is_live=not row.is_finished,
        owner=str(row.requested_by or ""),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        done=row.waves.filter(status=WaveStatus.PASSED).count(),
        total=waves,
        progress_label=_("Waves that passed"),
        error=row.error,
        error_title=_("Reason"),
    )


def _may_cancel(user: User, row: Rollout) -> bool:
    return all(may(user, Action.DEPLOY, site.team) for site in sites_of(row))


JOB = JobKind(
    name="rollout",
    find=_find,
    load=_load,
    mark=_mark,
    is_live=lambda row: not row.is_finished,
    shown=_shown,
    cancel=lambda actor, row: rollout_end(actor=actor, rollout=row),
    may_cancel=_may_cancel,
    region=lambda row: "rollouts/live.html",
    context=lambda row: {"rollout": row, "lines": wave_lines(row)},
    page=lambda row: reverse("rollouts:detail", args=[row.uuid]),
)
