"""Record the results of deployments: status, steps, states of the sites, and changes that follow a success."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from agents.protocol import ApplyResult, StepEvent
from panel.audit.services import audit_record, audit_record_all, snapshot
from panel.core.claims import Claim
from panel.deployments import health, observations
from panel.deployments.confirmation.services import disabling_take_back, wake_workers
from panel.deployments.execution import steps
from panel.deployments.guards import history_forget
from panel.deployments.health import Observed
from panel.deployments.locking import sites_lock
from panel.deployments.main_file.services import main_done
from panel.deployments.maintenance.rows import rows_settle
from panel.deployments.models import (
    Deployment,
    DeploymentItem,
    DeploymentKind,
    DeploymentStatus,
    Drift,
    DriftResolution,
    OnSuccess,
    Revision,
    SiteState,
    SiteStatus,
    WebServerState,
)
from panel.deployments.plan import FileRecord
from panel.deployments.planning.outdated import outdated_plans_cancel
from panel.deployments.planning.replacing import replaced_done
from panel.deployments.pool_moves import pools_settle
from panel.hosts.models import WebServer
from panel.websites.models import Site
from panel.websites.paths import logs_follow
from panel.websites.versions import plans_outdate

# These deploy what was live, so the draft differs from it as before.
_OF_LIVE_REVISIONS = (DeploymentKind.OVERWRITE, DeploymentKind.CERTIFICATE, DeploymentKind.MAINTENANCE)
STATUS_OF = {
    "applied": DeploymentStatus.SUCCEEDED,
    "unchanged": DeploymentStatus.SUCCEEDED,
    "rolled_back": DeploymentStatus.ROLLED_BACK,
    "failed": DeploymentStatus.FAILED,
}


@dataclass(frozen=True)
class End:
    """Result of one deployment.

    `steps` is empty if the agent sent no steps. `web_server_files` are the shared files of each web server, by its id,
    after a successful deployment.
    """

    deployment: Deployment
    status: DeploymentStatus
    error: str = ""
    steps: Sequence[StepEvent] = ()
    web_server_files: Mapping[int, list[FileRecord]] = field(default_factory=dict)
    comparison: dict[str, Any] | None = None  # what adopted sites answered before and after
    checks: Sequence[dict[str, Any]] = ()  # what sites were asked before and after (agents/host/checking.py)
    left_pools: Collection[str] = ()  # names of PHP-FPM pools that the host may still have after a failure


def end_of(
    deployment: Deployment,
    result: ApplyResult,
    web_server_files: Mapping[int, list[FileRecord]],
    comparison: dict[str, object] | None = None,
) -> End:
    """Build the End (the result) of a deployment from the agent's result of the transaction."""
    status = STATUS_OF[result.outcome]
    return End(deployment, status, result.error, result.steps, web_server_files, comparison, result.checks)


def ends_of(group: Sequence[Deployment], end: End) -> list[End]:
    """Return an End (a result) for each deployment in `group`, whose transaction has the result `end`.

    Each End has only the checks of its own sites and of sites that no deployment of the transaction changes. Only the
    End of the first deployment has the files of the web servers and the comparison.
    """
    names = {row.pk: {site.name for site in row.plan.sites} for row in group}
    everyone = set().union(*names.values())
    ends = []
    for row in group:
        others = everyone - names[row.pk]
        checks = [check for check in end.checks if check["site"] not in others]
        first = end if row is end.deployment else replace(end, deployment=row, web_server_files={}, comparison=None)
        ends.append(replace(first, checks=checks))
    return ends


@transaction.atomic
def ends_record(claim: Claim, ends: Sequence[End]) -> None:
    """Store the results of ended deployments, except for deployments that the worker no longer owns.

    The number of queries is constant, apart from failures and follow-ups.
    """
    ended = [end.deployment.pk for end in ends]
    sites_lock(DeploymentItem.objects.filter(deployment__in=ended).values_list("site", flat=True))
    rows = claim.rows.filter(pk__in=ended)
    owned = set(rows.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    mine = [end for end in ends if end.deployment.pk in owned]
    steps.steps_replace({end.deployment.pk: end.steps for end in mine})
    for end in mine:
        if end.comparison is not None:
            comparison_record(claim, end.deployment, end.comparison)
    _rows_end(claim, mine)
    observations.observed_record([(end.deployment, end.checks) for end in mine if end.checks])
    audit_record_all(
        actor=None,
        action="deployment.end",
        targets=[(end.deployment, None, {"status": end.status, "error": end.error[:2000]}) for end in mine],
    )
    _succeeded([end for end in mine if end.status == DeploymentStatus.SUCCEEDED])
    for end in mine:
        if end.status != DeploymentStatus.SUCCEEDED:
            _not_succeeded(end.deployment)
        pools_settle(end.deployment, is_live=end.status == DeploymentStatus.SUCCEEDED, left=end.left_pools)
    rows_settle(DeploymentItem.objects.filter(deployment__in=owned).values_list("site", flat=True))


def _rows_end(claim: Claim, ends: Sequence[End]) -> None:
    now = timezone.now()
    alike: dict[tuple[DeploymentStatus, str], list[Deployment]] = {}
    for end in ends:
        alike.setdefault((end.status, end.error), []).append(end.deployment)
    for (status, error), deployments in alike.items():
        rows = claim.rows.filter(pk__in=[deployment.pk for deployment in deployments])
        rows.update(status=status, error=error, finished_at=now)
        for deployment in deployments:
            deployment.status, deployment.error, deployment.finished_at = status, error, now


def comparison_record(claim: Claim, deployment: Deployment, comparison: dict[str, object]) -> None:
    """Store the compared responses of a deployment's adopted sites, if the worker still owns the deployment."""
    claim.rows.filter(pk=deployment.pk).update(comparison=comparison)
    deployment.comparison = comparison


def _not_succeeded(deployment: Deployment) -> None:
    for item in deployment.items.select_related("site"):
        SiteState.objects.update_or_create(site=item.site, defaults={"last_failure": deployment})
    if deployment.disables:  # still on the host, so still enabled
        disabling_take_back(deployment)
    deployment.followers.filter(status=DeploymentStatus.PLANNED).update(
        status=DeploymentStatus.CANCELLED,
        finished_at=timezone.now(),
        error=f"Not started because the deployment on {deployment.host} failed. Nothing was changed.",
    )


def _succeeded(ends: Sequence[End]) -> None:
    if not ends:
        return
    now = timezone.now()
    WebServerState.objects.bulk_create(
        [
            WebServerState(
                web_server_id=web_server, main_files=[], files=[asdict(file) for file in files], updated_at=now
            )
            for end in ends
            for web_server, files in end.web_server_files.items()
        ],
        update_conflicts=True,
        unique_fields=["web_server"],
        update_fields=["files", "updated_at"],
    )
    deployments = {end.deployment.pk: end.deployment for end in ends}
    items = list(DeploymentItem.objects.filter(deployment__in=deployments))
    answered = Revision.objects.filter(pk__in=[item.revision_id for item in items if item.revision_id])
    WebServer.objects.filter(is_running=False, pk__in=answered.values("web_server")).update(
        is_running=True, running_changed_at=now
    )
    _states_set(items, deployments, health.healths({end.deployment: end.checks for end in ends}))
    _drift_close(items, deployments)
    outdated_plans_cancel(items)
    replaced_done([item.revision_id for item in items if item.revision_id])
    for deployment in deployments.values():
        _follow(deployment)
    _followers_queue(deployments)


def _follow(deployment: Deployment) -> None:
    """Carry out the database change that follows a successful deployment, as its `on_success` specifies."""
    target = deployment.target
    match deployment.on_success:
        case OnSuccess.MAIN if target:
            main_done(target, deployment.plan.main_files)
        case OnSuccess.MOVE if target:
            _hand_over(deployment, target)
        case OnSuccess.DELETE:
            for site in Site.objects.filter(deployment_items__deployment=deployment):
                _site_forget(deployment, site)


def _followers_queue(deployments: Iterable[int]) -> None:
    """Queue planned deployments that waited for the given deployments (ids)."""
    waiting = Deployment.objects.filter(waits_for__in=deployments, status=DeploymentStatus.PLANNED)
    followers = list(waiting.only("pk", "uuid"))
    if followers and waiting.update(status=DeploymentStatus.QUEUED):
        wake_workers(followers)


def _hand_over(deployment: Deployment, web_server: WebServer) -> None:
    """Assign the sites of a finished move to their new web server, with the paths of their logs on it."""
    sites = list(Site.objects.filter(deployment_items__deployment=deployment).select_related("web_server"))
    for site in sites:
        logs_follow(site, web_server)
        Site.objects.filter(pk=site.pk).update(web_server=web_server)
    plans_outdate([site.pk for site in sites])


def _site_forget(deployment: Deployment, site: Site) -> None:
    """Delete a site that its deployment removed from the host. The plan and its confirmation checked the permission."""
    audit_record(actor=deployment.requested_by, action="site.delete", target=site, before=snapshot(site))
    history_forget(site)
    site.delete()


def _states_set(
    items: Sequence[DeploymentItem], deployments: Mapping[int, Deployment], seen: Mapping[tuple[int, int], Observed]
) -> None:
    """Write the states of sites after successful deployments. `seen` is {(deployment id, site id): observed health}."""
    now = timezone.now()
    states = []
    known = SiteState.objects.filter(site__in=[item.site_id for item in items])
    before = dict(known.values_list("site", "live_version"))
    since = health.since([item.site_id for item in items])
    for item in items:
        kind = deployments[item.deployment_id].kind
        if item.previous_id and not item.revision_id and kind == DeploymentKind.MOVE:
            continue  # removed here after it was deployed elsewhere: its state names the new host
        status = _status(item, kind)
        deploys = item.revision_id and kind not in _OF_LIVE_REVISIONS
        version = item.version if deploys or status == SiteStatus.DRAFT else before.get(item.site_id)
        state = SiteState(site_id=item.site_id, status=status, live_version=version, deployed_at=now)
        state.revision_id, state.disabled_revision_id = item.revision_id, item.disabled_after_id
        observed = health.noted(seen.get((item.deployment_id, item.site_id)), since.get(item.site_id), now)
        for name, value in zip(health.COLUMNS, observed, strict=True):
            setattr(state, name, value)
        states.append(state)
    columns = ["status", "revision", "disabled_revision", "live_version", "deployed_at", "last_failure"]
    columns += health.COLUMNS
    SiteState.objects.bulk_create(states, update_conflicts=True, unique_fields=["site"], update_fields=columns)


def _status(item: DeploymentItem, kind: str) -> SiteStatus:
    """Return the status of a site after its deployment; draft if its first deployment was undone by a rollback."""
    if item.revision_id:
        return SiteStatus.LIVE
    is_undone = kind == DeploymentKind.ROLLBACK and not item.disabled_after_id
    return SiteStatus.DRAFT if is_undone else SiteStatus.DISABLED


def _drift_close(items: Sequence[DeploymentItem], deployments: Mapping[int, Deployment]) -> None:
    """Close the open drift of all files that the deployments wrote or removed."""
    planned = {(item.site_id, file.path) for item in items for file in deployments[item.deployment_id].plan.files}
    open_rows = Drift.objects.filter(resolution=DriftResolution.OPEN, site__in=[item.site_id for item in items])
    gone = [pk for pk, site, path in open_rows.values_list("pk", "site_id", "path") if (site, path) in planned]
    if gone:
        values = {"resolution": DriftResolution.OVERWRITTEN, "resolved_at": timezone.now()}
        Drift.objects.filter(pk__in=gone).update(**values)
