"""Confirm plans that are still current, discard plans, and cancel queued deployments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require, require_each
from panel.audit.services import audit_record, audit_record_all
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.locking import sites_lock
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, DeploymentStatus
from panel.deployments.planning.disabled_files import disabled_revision_ids
from panel.deployments.planning.live_versions import live_versions_follow
from panel.deployments.planning.selectors import live_numbers, live_revision
from panel.deployments.pool_moves import pools_confirm, pools_settle
from panel.deployments.waking import deployments_wake
from panel.deployments.windows.services import refuse_closed
from panel.hosts.models import WebServer
from panel.hosts.services import refuse_paused
from panel.websites.models import Site
from panel.websites.services import site_enable
from panel.websites.versions import plans_outdate

_RENDERED_NOW = (DeploymentKind.DEPLOY, DeploymentKind.MOVE)
# Kinds that change windows restrict. Restoring or renewing a live state, and maintenance, are allowed at any time.
IN_WINDOWS = (DeploymentKind.DEPLOY, DeploymentKind.MOVE, DeploymentKind.DISABLE, DeploymentKind.MAIN)
ACTIVE = (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)
_CANCELLABLE = (DeploymentStatus.PLANNED, DeploymentStatus.QUEUED)
UNKNOWN_RESULT = (
    "Cancelled while the host did not respond. The host may have received the deployment; the agent then completes "
    "it or rolls it back. When the host responds again, check the host for drift."
)


def _require_main(actor: User, deployments: Iterable[Deployment]) -> None:
    """Require an administrator if one of the deployments changes a main file, which belongs to no team. Raises
    PermissionDenied.
    """
    if any(row.kind == DeploymentKind.MAIN for row in deployments):
        require(actor, Action.ADMINISTER)


def deployment_confirm(
    *,
    actor: User,
    deployment: Deployment,
    accept_drift: bool = False,
    deploy_anyway: bool = False,
    despite_windows: bool = False,
    held: Collection[int] = (),
) -> list[Deployment]:
    """Confirm a plan: queue the deployment and the others of its batch. Deployments in `held` (ids) wait for their wave
    of a rollout (holding.py).

    Raises Conflict if the plan is outdated, a site is already being deployed, or a host is paused or outside its change
    windows. An administrator can ignore the windows with `despite_windows`. Raises ApplicationError (code `drift`) if
    files were edited on the host, unless `accept_drift` permits overwriting them. With `deploy_anyway` the sites of
    these deployments may respond worse than before; the audit records this.
    """
    batch, items = _batch_of(deployment)
    require_each(actor, Action.DEPLOY, (item.site.team for item in items))
    _require_main(actor, batch)
    for row in batch:
        if row.status == DeploymentStatus.CANCELLED and row.error:
            raise Conflict(row.error)
        if row.status != DeploymentStatus.PLANNED or row.confirmed_at:
            raise Conflict(f"{deployment} is already confirmed or discarded. Nothing was changed.")
    refuse_paused(row.host for row in batch)
    now = [row.host for row in batch if row.kind in IN_WINDOWS and row.pk not in held]
    refuse_closed(actor, now, despite_windows=despite_windows)
    _refuse_drift(batch, accept_drift)
    with transaction.atomic():
        sites_lock(item.site_id for item in items)
        refuse_busy(item.site_id for item in items)
        _refuse_stale(items)
        pools_confirm(actor, batch)
        _confirm_rows(actor, batch, deploy_anyway, held)
    return batch


def _batch_of(deployment: Deployment) -> tuple[list[Deployment], list[DeploymentItem]]:
    """Return (deployments, items): the deployments of the batch of `deployment`, with hosts, and their items, with
    sites and revisions.
    """
    batch = list(Deployment.objects.filter(batch=deployment.batch).select_related("host").order_by("pk"))
    rows = DeploymentItem.objects.filter(deployment__batch=deployment.batch).order_by("deployment", "pk")
    rows = rows.select_related("site__team", "revision__web_server__host")
    items = list(rows.defer("revision__spec", "revision__files"))
    of = {row.pk: row for row in batch}
    for item in items:
        item.deployment = of[item.deployment_id]
    return batch, items


def deployments_confirm_themselves(deployments: Sequence[Deployment]) -> None:
    """Queue plans that the panel made without a user. Raises Conflict if a plan is outdated, a host paused, or a site
    being deployed, and ApplicationError (code `drift`) if files were edited on a host.
    """
    if not deployments:
        return
    rows = DeploymentItem.objects.filter(deployment__in=deployments).order_by("deployment", "pk")
    items = list(rows.select_related("site__team", "revision__web_server__host", "deployment__host"))
    refuse_paused({row.host for row in deployments})
    _refuse_drift(deployments, accept_drift=False)
    with transaction.atomic():
        sites_lock(item.site_id for item in items)
        refuse_busy(item.site_id for item in items)
        _refuse_stale(items)
        _confirm_rows(None, deployments, anyway=False)


def _refuse_drift(batch: Sequence[Deployment], accept_drift: bool) -> None:
    paths = [path for row in batch for path in row.plan.drifted]
    if paths and not accept_drift:
        raise ApplicationError(
            f"These files were edited on the host since the last deployment: {', '.join(paths)}. A deployment "
            "overwrites the edits. Review the differences, then confirm the overwrite, or adopt the files on the "
            "drift page.",
            field="accept_drift",
            code="drift",
        )


def refuse_busy(sites: Iterable[int]) -> None:
    busy = DeploymentItem.objects.filter(site__in=list(sites), deployment__status__in=ACTIVE)
    for item in busy.select_related("site", "deployment"):
        raise Conflict(f"Another deployment of {item.site} is running. Wait until it ends, then plan again.")


def _refuse_stale(items: Sequence[DeploymentItem]) -> None:
    """Raise Conflict if one of the plans is outdated: the live revision, the disabled files, the draft, or the web
    server of a site changed after the plan was made. The number of queries is constant.
    """
    refuse_other_live(items)
    _refuse_changed([item for item in items if item.deployment.kind in _RENDERED_NOW])


def refuse_other_live(items: Sequence[DeploymentItem]) -> None:
    """Raise Conflict if the live revision or the disabled files of a site changed after its plan was made."""
    sites = [item.site for item in items]
    live, disabled = live_numbers(sites), disabled_revision_ids(sites)
    for item in items:
        if disabled.get(item.site_id) != item.disabled_before_id:
            raise Conflict(
                f"This plan is outdated: the disabled files of {item.site} were changed on the host. Plan again."
            )
        waits = item.deployment.kind == DeploymentKind.MOVE and item.previous_id is None
        if not waits and live.get(item.site_id) != item.previous_id:
            raise Conflict(
                f"This plan is outdated: the live revision of {item.site} is "
                f"{live_revision(item.site) or 'none'}, but the plan expects {item.previous or 'none'}. "
                "Plan again."
            )


def _refuse_changed(items: Sequence[DeploymentItem]) -> None:
    """Raise Conflict for plans that were made from an older version of a draft or web server. The caller has locked the
    sites.
    """
    placed = [(item, item.revision) for item in items if item.revision]
    drafts = Site.objects.filter(pk__in=[item.site_id for item, _ in placed])
    versions = dict(drafts.values_list("pk", "version"))
    web_servers = WebServer.objects.filter(pk__in=[revision.web_server_id for _, revision in placed])
    servers = dict(web_servers.values_list("pk", "row_version"))
    for item, revision in placed:
        planned = [(row.version, row.server_version) for row in item.deployment.plan.sites if row.id == item.site_id]
        if (versions.get(item.site_id), servers.get(revision.web_server_id)) not in planned:
            raise Conflict(
                f"This plan is outdated: the draft of {item.site} was changed after the plan was created. Plan again."
            )


def _confirm_rows(actor: User | None, batch: Sequence[Deployment], anyway: bool, held: Collection[int] = ()) -> None:
    confirmed_at = timezone.now()
    for waits in (False, True):
        rows = [row for row in batch if (row.waits_for_id is not None or row.pk in held) == waits]
        status = DeploymentStatus.PLANNED if waits else DeploymentStatus.QUEUED
        planned = Deployment.objects.filter(status=DeploymentStatus.PLANNED, confirmed_at=None)
        values = {"status": status, "confirmed_at": confirmed_at, "anyway": anyway}
        if rows and planned.filter(pk__in=[row.pk for row in rows]).update(**values) != len(rows):
            raise Conflict(f"Somebody else has just confirmed or discarded {rows[0]}. Reload the page.")
        for row in rows:
            row.status, row.confirmed_at, row.anyway = status, confirmed_at, anyway
    for row in batch:
        if row.disables:
            for item in row.items.select_related("site"):
                if item.site.enabled and actor is not None:
                    live_versions_follow([item.site_id])  # this deployment restores that state
                    site_enable(actor=actor, site=item.site, enabled=False)
    targets = [(row, None, {"batch": str(row.batch), "deploy_anyway": anyway}) for row in batch]
    audit_record_all(actor=actor, action="deployment.confirm", targets=targets)
    wake_workers([row for row in batch if row.status == DeploymentStatus.QUEUED])


def wake_workers(deployments: Sequence[Deployment]) -> None:
    """Wake workers for queued deployments after the commit. If the Celery message is lost, a periodic sweep finds the
    deployments later.
    """
    uuids = [row.uuid for row in deployments]
    transaction.on_commit(lambda: deployments_wake(uuids), robust=True)


def deployment_cancel(*, actor: User, deployment: Deployment) -> Deployment:
    """Discard a plan, or cancel a queued deployment, together with the deployments of its batch that have not started.

    Raises Conflict if the deployment is running or has ended. A queued deployment that was already sent to its host,
    and got no response, is canceled with the error UNKNOWN_RESULT.
    """
    items = deployment.items.select_related("site__team")
    require_each(actor, Action.DEPLOY, (item.site.team for item in items))
    _require_main(actor, [deployment])
    with transaction.atomic():
        batch = DeploymentItem.objects.filter(deployment__batch=deployment.batch)
        sites_lock(batch.values_list("site", flat=True))
        rows = Deployment.objects.filter(batch=deployment.batch, status__in=_CANCELLABLE)
        if not rows.filter(pk=deployment.pk).exists():
            raise Conflict(
                f"{deployment} has already started or ended, so it cannot be cancelled. If the deployment succeeds, "
                "you can roll it back."
            )
        _take_back_disabling(rows)
        for row in rows.filter(kind=DeploymentKind.MOVE, confirmed_at__isnull=False):
            pools_settle(row, is_live=False, left=[pool.name for pool in row.plan.pools if row.started_at])
        rows.filter(started_at__isnull=False).update(error=UNKNOWN_RESULT)
        rows.update(status=DeploymentStatus.CANCELLED, finished_at=timezone.now())
        deployment.refresh_from_db()
        audit_record(actor=actor, action="deployment.cancel", target=deployment)
    return deployment


def _take_back_disabling(rows: QuerySet[Deployment]) -> None:
    """Enable the sites again that were disabled when these now canceled deployments were confirmed."""
    for row in rows.filter(confirmed_at__isnull=False):
        if row.disables:
            disabling_take_back(row)


def disabling_take_back(deployment: Deployment) -> None:
    """Enable the sites again that were disabled when this deployment was confirmed, because the deployment failed or
    was canceled.
    """
    sites = Site.objects.filter(deployment_items__deployment=deployment, enabled=False)
    disabled = list(sites.values_list("pk", flat=True))
    Site.objects.filter(pk__in=disabled).update(enabled=True)
    plans_outdate(disabled)
