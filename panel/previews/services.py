"""Services that request and cancel previews."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require_each
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.core.messages import Task, task_send_on_commit
from panel.deployments.models import Deployment, DeploymentStatus
from panel.hosts.services.hosts import refuse_paused
from panel.previews.models import KINDS, UNFINISHED, Preview
from panel.previews.selectors import teams_of


@transaction.atomic
def preview_request(*, actor: User, deployment: Deployment) -> Preview:
    """Queue a preview of a plan that waits for its confirmation.

    The actor must be allowed to deploy each of its sites, because the draft's configuration runs on the host. Raises
    PermissionDenied, ApplicationError if the plan deploys nothing, and Conflict if the plan no longer waits or a
    preview of it is running.
    """
    plan = Deployment.objects.select_for_update(of=("self",)).select_related("host").get(pk=deployment.pk)
    require_each(actor, Action.DEPLOY, teams_of(plan))
    if plan.kind not in KINDS:
        raise ApplicationError(_("Only plans that deploy, move, or roll back sites can be previewed."))
    if plan.status != DeploymentStatus.PLANNED or plan.confirmed_at is not None:
        raise Conflict(_("This plan no longer waits for confirmation. Plan the deployment again."))
    if Preview.objects.filter(deployment=plan, status__in=UNFINISHED).exists():
        raise Conflict(_("A preview of this plan is already running."))
    refuse_paused([plan.host])
    preview = Preview.objects.create(deployment=plan, requested_by=actor)
    audit_record(actor=actor, action="preview.request", target=preview)
    task_send_on_commit(Task.PREVIEW_RUN, str(preview.uuid))
    return preview


@transaction.atomic
def preview_cancel(*, actor: User, preview: Preview) -> Preview:
    """Cancel a preview.

    A queued preview ends immediately; a running preview ends after its private web servers have stopped. Raises
    Conflict if the preview has ended.
    """
    require_each(actor, Action.DEPLOY, teams_of(preview.deployment))
    rows = Preview.objects.filter(pk=preview.pk)
    ended = rows.filter(status=JobStatus.QUEUED).update(status=JobStatus.CANCELLED, finished_at=timezone.now())
    if not ended and not rows.filter(status=JobStatus.RUNNING).update(cancel_requested=True):
        raise Conflict(_("This preview has already ended and cannot be cancelled."))
    audit_record(actor=actor, action="preview.cancel", target=preview)
    preview.refresh_from_db()
    return preview
