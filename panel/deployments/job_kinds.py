"""Deployments as a kind of job (core/jobs.py): find, show and cancel them on the pages of all jobs."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.core.jobs import JobKind, JobShown
from panel.deployments import observations, selectors
from panel.deployments.confirmation.services import deployment_cancel
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus, OnSuccess, StepStatus


def _find(user: User, uuid: UUID) -> Deployment | None:
    row = selectors.deployments_visible(user).filter(uuid=uuid).first()
    return row if row and selectors.is_whole_visible(user, row) else None


def _load(uuid: UUID) -> Deployment | None:
    return Deployment.objects.select_related("host", "requested_by").filter(uuid=uuid).first()


def _mark(row: Deployment) -> object:
    steps = tuple(row.steps.values_list("position", "status", "finished_at"))
    return (row.status, row.error, row.progress, steps)


def _words(row: Deployment) -> str:
    if row.superseded_by_id:
        return _("A newer plan replaced this plan before anybody confirmed it. Nothing was changed.")
    match row.status:
        case DeploymentStatus.QUEUED if row.progress:
            return _("Waiting: %(reason)s") % {"reason": row.progress}
        case DeploymentStatus.QUEUED:
            return _("Waiting for a free worker.")
        case DeploymentStatus.PLANNED if row.waits_for_id:
            return _("Waiting for the deployment on the other host of the move.")
        case DeploymentStatus.PLANNED:
            return _("Waiting for the wave of the rollout that contains this host.")
        case DeploymentStatus.RUNNING:
            return _("The deployment is running on the host.")
        case DeploymentStatus.ROLLED_BACK:
            return _("Paddock rolled the host back to the previous configuration, and the sites respond.")
        case DeploymentStatus.FAILED:
            return _("The deployment failed. The page shows the error.")
        case DeploymentStatus.CANCELLED:
            return "" if row.error else _("Discarded. Nothing was changed.")
    if row.on_success == OnSuccess.DELETE:
        return _("The site was deleted from its host; its document root is kept.")
    if row.kind == DeploymentKind.DISABLE:
        return _("The site was removed from its web server; other sites on the host keep running.")
    return f"{_result(row)} {_('The deployment was confirmed with “Deploy anyway”.') if row.anyway else ''}".rstrip()


def _result(row: Deployment) -> str:
    if row.observation:
        return _("Deployed. %(words)s") % {"words": row.observation}
    if row.is_verified:
        return _("Every site responds as expected.")
    return _("Deployed. The responses of the sites were not checked.")


def _error_title(row: Deployment) -> str:
    """Return the heading above the error of a deployment that failed, was rolled back, or was canceled."""
    if row.steps.filter(name="probe", status=StepStatus.FAILED).exists():
        return _("A site responds worse than before")
    if row.status == DeploymentStatus.ROLLED_BACK:
        return _("Error message from the web server")
    return _("Reason for cancelling") if row.status == DeploymentStatus.CANCELLED else _("Error")


def _shown(row: Deployment) -> JobShown:
    is_told = bool(row.error) and not row.superseded_by_id
    is_queued = row.status == DeploymentStatus.QUEUED
    return JobShown(
        uuid=row.uuid,
        title=row.title,
        status=row.status,
        status_words=row.status_words,
        words=_words(row),
        is_live=not row.is_finished,
        owner=str(row.requested_by or ""),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error if is_told else "",
        error_title=_error_title(row) if is_told else "",
        cancel_url=reverse("deployments:cancel", args=[row.uuid]) if is_queued else "",
        cancel_label=_("Cancel"),
    )


def _may_cancel(user: User, row: Deployment) -> bool:
    if row.kind == DeploymentKind.MAIN:
        return may(user, Action.ADMINISTER)
    return all(may(user, Action.DEPLOY, item.site.team) for item in row.items.select_related("site__team"))


def _context(row: Deployment) -> dict[str, object]:
    return {"deployment": row, "steps": list(row.steps.all()), "checks": observations.lines_of(row.checks)}


JOB = JobKind(
    name="deployment",
    find=_find,
    load=_load,
    mark=_mark,
    is_live=lambda row: not row.is_finished,
    shown=_shown,
    cancel=lambda actor, row: deployment_cancel(actor=actor, deployment=row),
    may_cancel=_may_cancel,
    region=lambda row: "deployments/live.html",
    context=_context,
    page=lambda row: reverse("deployments:detail", args=[row.uuid]),
)
