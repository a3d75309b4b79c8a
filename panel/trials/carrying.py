"""Carrying a deployment out from inside a trial: by this worker, or by the one that was faster."""

from __future__ import annotations

import time
from collections.abc import Callable

from panel.accounts.models import User
from panel.core.errors import ApplicationError, Conflict
from panel.deployments import host_agent
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import Deployment, DeploymentItem, DeploymentStatus
from panel.deployments.planning import services as deployments
from panel.deployments.planning.plans import live_revision
from panel.hosts.claims import Attempt
from panel.websites.models import Site

POLL_S = 0.3
WAIT_S = 3.0  # before a busy or silent host is tried again


def carry_out(actor: User, plan: Deployment, check: Callable[[], None]) -> Deployment:
    """Confirm `plan` and wait until it ended. `check` may end the wait by an exception; the deployment then goes on by
    itself, or is taken back by `copy_remove`."""
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
    """Take a copy off its server and forget it. Raises what planning and confirming raise, ApplicationError when the
    host did not do it."""
    _end_former(actor, copy, check)
    _ask_about_lost(copy)
    plan = deployments.site_delete(actor=actor, site=copy)
    if plan is None:
        return
    done = carry_out(actor, plan, check)
    if done.status != DeploymentStatus.SUCCEEDED:
        raise ApplicationError(done.error)


def _end_former(actor: User, copy: Site, check: Callable[[], None]) -> None:
    """Deployments of the copy that are under way still: taken back where they have not begun, else waited for."""
    for item in DeploymentItem.objects.filter(site=copy, deployment__status__in=deployments.ACTIVE):
        row = item.deployment
        if row.started_at is None:
            try:
                deployments.deployment_cancel(actor=actor, deployment=row)
                continue
            except Conflict:  # it has begun just now
                row.refresh_from_db()
        while not row.is_finished and not _ended(row):
            check()


def _ask_about_lost(copy: Site) -> None:
    """A deployment that was given up while the host was at work may stand there after all: its agent knows. Raises
    RemoteError as long as that cannot be asked."""
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
