"""Deployments as part of a server comparison, executed by this worker or by another one that claims them first."""

from __future__ import annotations

import time
from collections.abc import Callable

from panel.accounts.models import User
from panel.core.claims import Attempt
from panel.core.errors import ApplicationError, Conflict
from panel.deployments import host_agent
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import Deployment, DeploymentItem, DeploymentStatus
from panel.deployments.planning import services as deployments
from panel.deployments.planning.selectors import live_revision
from panel.websites.models import Site

POLL_S = 0.3
WAIT_S = 3.0  # before another attempt on a busy or unreachable host


def carry_out(actor: User, plan: Deployment, check: Callable[[], None]) -> Deployment:
    """Confirm `plan`, wait until the deployment ends, and return the deployment.
    `check` is called repeatedly. An exception of `check` ends the wait but not the deployment; `copy_remove` can cancel
    the deployment.
    """
    deployments.deployment_confirm(actor=actor, deployment=plan)
    while not _ended(plan):
        check()
    return plan


def _ended(deployment: Deployment) -> bool:
    attempt = deployment_execute(deployment.uuid)
    deployment.refresh_from_db()
    if not deployment.is_finished:
        time.sleep(POLL_S if attempt == Attempt.NOTHING and deployment.status == DeploymentStatus.RUNNING else WAIT_S)
    return deployment.is_finished


def copy_remove(actor: User, copy: Site, check: Callable[[], None]) -> None:
    """Remove a site's copy from its web server and delete it. Raises the errors of planning and confirming, and
    ApplicationError if the deployment fails.
    """
    _end_former(actor, copy, check)
    _ask_about_lost(copy)
    plan = deployments.site_delete(actor=actor, site=copy)
    if plan is None:
        return
    done = carry_out(actor, plan, check)
    if done.status != DeploymentStatus.SUCCEEDED:
        raise ApplicationError(done.error)


def _end_former(actor: User, copy: Site, check: Callable[[], None]) -> None:
    """Cancel queued deployments of the copy, and wait until its running deployments have ended."""
    for item in DeploymentItem.objects.filter(site=copy, deployment__status__in=deployments.ACTIVE):
        row = item.deployment
        if row.started_at is None:
            try:
                deployments.deployment_cancel(actor=actor, deployment=row)
                continue
            except Conflict:  # started just now
                row.refresh_from_db()
        while not row.is_finished and not _ended(row):
            check()


def _ask_about_lost(copy: Site) -> None:
    """Correct deployments of the copy that failed in the panel because their worker died, but that the host applied.
    Asks the agent whether the host applied each deployment; if so, records the deployment as succeeded. Raises
    RemoteError while the agent is unreachable.
    """
    if live_revision(copy) is not None:
        return
    lost = DeploymentItem.objects.filter(
        site=copy, deployment__status=DeploymentStatus.FAILED, deployment__started_at__isnull=False
    )
    for item in lost.select_related("deployment__host"):
        row = item.deployment
        known = host_agent.outcome(row.host, str(row.uuid))
        if known is None or known.outcome not in ("applied", "unchanged"):
            continue
        Deployment.objects.filter(pk=row.pk, status=DeploymentStatus.FAILED).update(
            status=DeploymentStatus.QUEUED, finished_at=None, error=""
        )
        while not _ended(row):
            pass
