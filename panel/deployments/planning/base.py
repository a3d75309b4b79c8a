"""Steps that all kinds of plans share: check permissions, select the sites on hosts, and store plans as deployments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require_each
from panel.audit.services import audit_record_all
from panel.core.errors import ApplicationError
from panel.deployments.confirmation.services import refuse_busy
from panel.deployments.locking import sites_lock
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, OnSuccess, Revision
from panel.deployments.plan import PlanPool, PlanWarning
from panel.deployments.planning.changes import Change
from panel.deployments.planning.disabled_files import disabled_revisions
from panel.deployments.planning.live_versions import live_versions_recognize
from panel.deployments.planning.plans import plans_make
from panel.deployments.planning.selectors import live_revision, live_revisions
from panel.deployments.planning.superseding import supersede
from panel.hosts.models import Host, WebServer
from panel.websites.models import Site


@dataclass(frozen=True)
class Then:
    """Fields of a new Deployment: the deployment that it waits for, and the follow-up after its success."""

    on_success: OnSuccess = OnSuccess.NOTHING
    target: WebServer | None = None
    waits_for: Deployment | None = None


@dataclass(frozen=True)
class Moved:
    """Additions to the plan of a move to another host: PHP-FPM pools that it creates, and warnings."""

    pools: Sequence[PlanPool] = ()
    warnings: Sequence[PlanWarning] = ()


NOTHING_ELSE = Then()
NOTHING_MOVED = Moved()


def sites_allowed(actor: User, sites: Iterable[Site], *actions: Action) -> list[Site]:
    """Return the sites without duplicates. Raises PermissionDenied if the actor lacks a permission (default: deploy)
    for one of the sites, ApplicationError if `sites` is empty."""
    found = list({site.pk: site for site in sites}.values())
    if not found:
        raise ApplicationError("No sites selected. Choose at least one site.", field="sites")
    for action in actions or (Action.DEPLOY,):
        require_each(actor, action, (site.team for site in found))
    return found


def plans_store(
    actor: User | None,
    hosts: Mapping[Host, Sequence[Change]],
    kind: DeploymentKind,
    batch: UUID,
    then: Then,
    moved: Moved = NOTHING_MOVED,
) -> list[Deployment]:
    """Plan the changes and store one deployment per host, all in one batch. `moved`: additions to the first plan."""
    # A renewed certificate neither needs nor overwrites a file that somebody edited.
    plans = plans_make(hosts, only_changes=kind == DeploymentKind.CERTIFICATE, pools=moved.pools)
    for plan in plans[:1]:
        plan.pools += moved.pools
        plan.warnings += moved.warnings
    with transaction.atomic():
        sites_lock(change.site.pk for changes in hosts.values() for change in changes)
        rows = Deployment.objects.bulk_create(
            Deployment(host=host, kind=kind, batch=batch, plan=plan, requested_by=actor, **vars(then))
            for host, plan in zip(hosts, plans, strict=True)
        )
        DeploymentItem.objects.bulk_create(
            DeploymentItem(
                deployment=row,
                version=change.version,
                site=change.site,
                revision=change.new,
                previous=change.old,
                disabled_after=change.disabled_after,
                disabled_before=change.disabled_before,
            )
            for row in rows
            for change in hosts[row.host]
        )
        live_versions_recognize(change for changes in hosts.values() for change in changes)
        supersede(actor, rows, {change.site.pk for changes in hosts.values() for change in changes})
        named = [(row, {"kind": kind, "sites": [change.site.name for change in hosts[row.host]]}) for row in rows]
        audit_record_all(actor=actor, action="deployment.plan", targets=[(row, None, after) for row, after in named])
    return rows


def plans_by_host(
    actor: User | None, kind: DeploymentKind, changes: Iterable[tuple[Host, Change]], then: Then = NOTHING_ELSE
) -> list[Deployment]:
    """Plan the changes: one deployment for every host, all in one batch."""
    hosts: dict[Host, list[Change]] = {}
    for host, change in changes:
        hosts.setdefault(host, []).append(change)
    return plans_store(actor, {host: hosts[host] for host in sorted(hosts, key=str)}, kind, uuid4(), then)


def live_or_refuse(site: Site) -> Revision:
    revision = live_revision(site)
    if revision is None:
        raise ApplicationError(f"{site} is not deployed, so there is nothing to remove or overwrite.", field="sites")
    return revision


def leaving_changes(sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    """Return the changes that remove deployed or disabled sites completely from their hosts."""
    live, disabled = live_revisions(sites), disabled_revisions(sites)
    changes = [Change(site, live.get(site.pk), None, disabled_before=disabled.get(site.pk)) for site in sites]
    return [(before.web_server.host, item) for item in changes if (before := item.old or item.disabled_before)]


def deployed_or_not(chosen: Sequence[Site], *, with_disabled: bool = True) -> tuple[list[Site], list[Site]]:
    """Split sites into two lists: sites on a host (deployed, or disabled there), and sites on none. Raises Conflict if
    a deployment of a site in the second list runs.
    """
    there = live_revisions(chosen).keys() | (disabled_revisions(chosen).keys() if with_disabled else set())
    nowhere = [site for site in chosen if site.pk not in there]
    refuse_busy(site.pk for site in nowhere)
    return [site for site in chosen if site.pk in there], nowhere
