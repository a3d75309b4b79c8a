"""What the panel writes down when a deployment has ended: its row, the sites' states, what follows."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.protocol import ApplyResult
from panel.audit.services import audit_record, snapshot
from panel.deployments import steps
from panel.deployments.guards import history_forget
from panel.deployments.models import (
    Deployment,
    DeploymentItem,
    DeploymentKind,
    DeploymentStatus,
    Drift,
    DriftResolution,
    InstallState,
    SiteState,
    SiteStatus,
)
from panel.websites.models import Site

STATUS_OF = {
    "applied": DeploymentStatus.SUCCEEDED,
    "unchanged": DeploymentStatus.SUCCEEDED,
    "rolled_back": DeploymentStatus.ROLLED_BACK,
    "failed": DeploymentStatus.FAILED,
}


def end(deployment: Deployment, token: str, status: DeploymentStatus, error: str = "") -> bool:
    """Write the final status, unless this worker lost its claim. The caller's transaction."""
    rows = Deployment.objects.filter(pk=deployment.pk, claimed_by=token, status=DeploymentStatus.RUNNING)
    if not rows.update(status=status, error=error, finished_at=timezone.now()):
        return False
    deployment.refresh_from_db()
    after = {"status": status, "error": error[:2000]}
    audit_record(actor=None, action="deployment.end", target=deployment, after=after)
    return True


@transaction.atomic
def result_record(
    deployment: Deployment, token: str, result: ApplyResult, install_files: dict[int, list[dict[str, Any]]]
) -> None:
    """The agent's outcome. `install_files`: what stands of each server's own files if it was applied."""
    steps.steps_replace(deployment, result.steps)
    status = STATUS_OF[result.outcome]
    if not end(deployment, token, status, result.error):
        return
    if status == DeploymentStatus.SUCCEEDED:
        _succeeded(deployment, install_files)
    else:
        _not_succeeded(deployment)


@transaction.atomic
def failure_record(deployment: Deployment, token: str, error: str) -> None:
    """Nothing could be handed over, or the host never said what became of it; `error` says which."""
    if end(deployment, token, DeploymentStatus.FAILED, error):
        _not_succeeded(deployment)


def _not_succeeded(deployment: Deployment) -> None:
    for item in deployment.items.select_related("site"):
        SiteState.objects.update_or_create(site=item.site, defaults={"last_failure": deployment})
    if deployment.plan["after"].get("enabled") is False:  # still there, so still wanted there
        Site.objects.filter(deployment_items__deployment=deployment).update(enabled=True)
    then = deployment.plan["after"].get("then")
    if then:
        Deployment.objects.filter(uuid=then, status=DeploymentStatus.PLANNED).update(
            status=DeploymentStatus.CANCELLED,
            finished_at=timezone.now(),
            error=f"Not done, since the site could not be put up on {deployment.host}.",
        )


def _succeeded(deployment: Deployment, install_files: dict[int, list[dict[str, Any]]]) -> None:
    for install, files in install_files.items():
        InstallState.objects.update_or_create(install_id=install, defaults={"files": files})
    for item in deployment.items.select_related("site", "revision"):
        _state_set(deployment, item)
    _drift_close(deployment)
    after = deployment.plan["after"]
    if after.get("install"):
        Site.objects.filter(deployment_items__deployment=deployment).update(install_id=after["install"])
    for site in Site.objects.filter(pk__in=after.get("delete", [])):
        _site_forget(deployment, site)
    if after.get("then"):
        _queue(after["then"])


def _site_forget(deployment: Deployment, site: Site) -> None:
    """Permission was asked for when the deletion was planned and confirmed."""
    audit_record(actor=deployment.requested_by, action="site.delete", target=site, before=snapshot(site))
    history_forget(site)
    site.delete()


def _state_set(deployment: Deployment, item: DeploymentItem) -> None:
    if item.revision is None and deployment.kind == DeploymentKind.MOVE:
        return  # taken off here after it was put up elsewhere: its state says where
    status = SiteStatus.LIVE if item.revision else SiteStatus.DISABLED
    values = {"status": status, "revision": item.revision, "deployed_at": timezone.now(), "last_failure": None}
    SiteState.objects.update_or_create(site=item.site, defaults=values)


def _drift_close(deployment: Deployment) -> None:
    """Every planned path now holds what was planned, so what was found there before is gone."""
    paths = [file["path"] for file in deployment.plan["files"]]
    Drift.objects.filter(
        site__deployment_items__deployment=deployment, path__in=paths, resolution=DriftResolution.OPEN
    ).update(resolution=DriftResolution.OVERWRITTEN, resolved_at=timezone.now())


def _queue(uuid: str) -> None:
    from panel.deployments.services import wake_worker

    rows = Deployment.objects.filter(uuid=uuid, status=DeploymentStatus.PLANNED)
    if rows.update(status=DeploymentStatus.QUEUED):
        wake_worker(Deployment.objects.get(uuid=uuid))
