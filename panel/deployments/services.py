"""Plans, their confirmation, and what is planned in one step: rollback, disable, delete, move, overwrite.

Nothing reaches a host before `deployment_confirm`, and what it confirms is what was shown: when the site, what stands
on the host, or the server changed since, the plan is refused as stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, audit_record_all
from panel.core.errors import ApplicationError, Conflict
from panel.deployments.changes import Change
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, DeploymentStatus, Revision
from panel.deployments.planning import live_revision, live_revisions, plans_make
from panel.deployments.rendered import frozen_now, revisions_keep, spec_of
from panel.hosts.models import EngineInstall, Host
from panel.hosts.services import refuse_paused
from panel.websites import checks, freeze, paths
from panel.websites.listing import sites_changed
from panel.websites.models import Site
from panel.websites.services import site_delete as site_forget
from panel.websites.services import site_enable

_RENDERED_NOW = (DeploymentKind.DEPLOY, DeploymentKind.MOVE)
ACTIVE = (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)


def _require_all(actor: User, sites: Iterable[Site]) -> None:
    for site in sites:
        require(actor, Action.DEPLOY, site.team)


def _check_sites(actor: User, sites: Sequence[Site], install: EngineInstall | None = None) -> list[Site]:
    """The sites with their parts. A draft may be invalid; a plan may not: raises ValidationError keyed by place, with
    the site's name before it when there are several."""
    sites = list(freeze.with_parts(Site.objects.filter(pk__in=[site.pk for site in sites])))
    faults: dict[str, list[str]] = {}
    suspects = checks.clash_suspects(sites) if install is None else {site.pk for site in sites}
    for site in sites:
        prefix = f"{site.name}/" if len(sites) > 1 else ""
        if not site.enabled:
            message = f"{site} is disabled: enable it first, then deploy it."
            faults.setdefault(f"{prefix}enabled", []).append(message)
        for problem in checks.site_problems(site, install, actor=actor, is_fetched=True, may_clash=site.pk in suspects):
            faults.setdefault(prefix + problem.where, []).append(problem.message)
    if faults:
        raise ValidationError(faults)
    return sites


def _unique(sites: Iterable[Site]) -> list[Site]:
    found = list({site.pk: site for site in sites}.values())
    if not found:
        raise ApplicationError("Choose at least one site; none was named, so no host is touched.", field="sites")
    return found


def _plan_and_store(
    actor: User, hosts: Mapping[Host, Sequence[Change]], kind: DeploymentKind, batch: UUID, after: dict[str, Any]
) -> list[Deployment]:
    """`after` is what follows success; where it says `delete`, each host's plan names the sites to forget there."""
    plans = [plan | {"after": dict(after)} for plan in plans_make(hosts)]
    for plan, changes in zip(plans, hosts.values(), strict=True):
        if "delete" in after:
            plan["after"]["delete"] = [change.site.pk for change in changes]
    with transaction.atomic():
        rows = Deployment.objects.bulk_create(
            Deployment(host=host, kind=kind, batch=batch, plan=plan, requested_by=actor)
            for host, plan in zip(hosts, plans, strict=True)
        )
        DeploymentItem.objects.bulk_create(
            DeploymentItem(deployment=row, site=change.site, revision=change.new, previous=change.old)
            for row in rows
            for change in hosts[row.host]
        )
        named = [(row, {"kind": kind, "sites": [change.site.name for change in hosts[row.host]]}) for row in rows]
        audit_record_all(actor=actor, action="deployment.plan", targets=[(row, None, after) for row, after in named])
    return rows


def _by_host(
    actor: User, kind: DeploymentKind, changes: Iterable[tuple[Host, Change]], after: dict[str, Any]
) -> list[Deployment]:
    """One deployment for every host, all of one batch."""
    hosts: dict[Host, list[Change]] = {}
    for host, change in changes:
        hosts.setdefault(host, []).append(change)
    return _plan_and_store(actor, {host: hosts[host] for host in sorted(hosts, key=str)}, kind, uuid4(), after)


def deployment_plan(
    *, actor: User, sites: Iterable[Site], kind: DeploymentKind = DeploymentKind.DEPLOY
) -> list[Deployment]:
    """Freeze and render the sites as they are now, and show what that changes: one deployment for each host, of one
    batch. `kind`: DEPLOY, DISABLE (take off the host) or OVERWRITE (put back what was deployed last).

    Raises ValidationError (places of what is wrong), PermissionDenied, ApplicationError.
    """
    chosen = _unique(sites)
    _require_all(actor, chosen)
    make = {
        DeploymentKind.DEPLOY: _deploy_changes,
        DeploymentKind.DISABLE: _disable_changes,
        DeploymentKind.OVERWRITE: _overwrite_changes,
    }.get(kind)
    if make is None:
        raise ApplicationError("Rolling back and moving name one site: use their own call.", field="kind")
    after = {"enabled": False} if kind == DeploymentKind.DISABLE else {}
    return _by_host(actor, kind, make(actor, chosen), after)


def hosts_plan(*, actor: User, hosts: Iterable[Host]) -> list[Deployment]:
    """Plan whatever was changed on these hosts since it was put there, of what the actor sees. ApplicationError
    where nothing was."""
    chosen = list(hosts)
    sites = list(sites_changed(actor, chosen))
    if not sites:
        names = ", ".join(sorted(host.name for host in chosen))
        text = f"Nothing was changed since the last deployment on {names or 'no host'}: there is nothing to plan."
        raise ApplicationError(text, field="hosts")
    return deployment_plan(actor=actor, sites=sites)


def _deploy_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    live, placed = live_revisions(sites), []
    for site in _check_sites(actor, sites):
        assert site.install is not None
        placed.append((site, site.install))
    frozen = frozen_now(placed)
    new = revisions_keep(actor=actor, sites=frozen)
    return [
        (item.install.host, Change(item.site, live.get(item.site.pk), new[item.site.pk], item.inputs))
        for item in frozen
    ]


def _live_or_refuse(site: Site) -> Revision:
    revision = live_revision(site)
    if revision is None:
        raise ApplicationError(f"{site} stands on no host: there is nothing to take off or put back.", field="sites")
    return revision


def _disable_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    live = [(site, _live_or_refuse(site)) for site in sites]
    return [(old.install.host, Change(site, old, None)) for site, old in live]


def _overwrite_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    live = [(site, _live_or_refuse(site)) for site in sites]
    return [(old.install.host, Change(site, old, old)) for site, old in live]


def site_rollback(*, actor: User, site: Site, revision: Revision) -> Deployment:
    """Plan to put back an earlier revision, exactly as it was. The draft stays: deploying again brings it back."""
    _require_all(actor, [site])
    if revision.site_id != site.pk:
        raise ApplicationError(f"{revision} is not a revision of {site}.", field="revision")
    if site.install_id != revision.install_id:
        raise ApplicationError(
            f"{revision} was made for {revision.install}; the site is on {site.install or 'no server'} now. "
            "Move it back first.",
            field="revision",
        )
    if not site.enabled:
        raise ApplicationError(f"{site} is disabled: enable it first.", field="enabled")
    _check_old_paths(actor, site, revision)
    change = Change(site, live_revision(site), revision)
    return _by_host(actor, DeploymentKind.ROLLBACK, [(revision.install.host, change)], {})[0]


def _check_old_paths(actor: User, site: Site, revision: Revision) -> None:
    """What was the site's when the revision was made may be another team's by now. Raises ValidationError."""
    host = revision.install.host
    named = paths.spec_paths(spec_of(revision))
    faults = checks.path_clashes(actor, site, host, kept=paths.standing_paths(site, host), named=named)
    if faults:
        raise ValidationError({"revision": [fault.message for fault in faults]})


def _stand_or_not(actor: User, sites: Iterable[Site]) -> tuple[list[Site], list[Site]]:
    """Those that stand on a host, and those that stand nowhere and are not being put up either."""
    chosen = _unique(sites)
    _require_all(actor, chosen)
    live = live_revisions(chosen)
    nowhere = [site for site in chosen if site.pk not in live]
    _refuse_busy(site.pk for site in nowhere)
    return [site for site in chosen if site.pk in live], nowhere


def sites_disable(*, actor: User, sites: Iterable[Site]) -> list[Deployment]:
    """Plan to take the sites off their hosts; confirmed, they are disabled. Those that stand nowhere are disabled at
    once: with none that stands, there is no plan."""
    standing, nowhere = _stand_or_not(actor, sites)
    plans = deployment_plan(actor=actor, sites=standing, kind=DeploymentKind.DISABLE) if standing else []
    with transaction.atomic():
        for site in nowhere:
            site_enable(actor=actor, site=site, enabled=False)
    return plans


def site_disable(*, actor: User, site: Site) -> Deployment | None:
    """The same for one site; None when it stood nowhere."""
    return next(iter(sites_disable(actor=actor, sites=[site])), None)


def sites_delete(*, actor: User, sites: Iterable[Site]) -> list[Deployment]:
    """Plan to take the sites off their hosts; once that succeeded they are forgotten with their history. Those that
    stand nowhere are forgotten at once."""
    chosen = _unique(sites)
    for site in chosen:
        require(actor, Action.CHANGE, site.team)
    standing, nowhere = _stand_or_not(actor, chosen)
    changes = _disable_changes(actor, standing)
    after: dict[str, Any] = {"enabled": False, "delete": []}
    plans = _by_host(actor, DeploymentKind.DISABLE, changes, after) if changes else []
    with transaction.atomic():
        for site in nowhere:
            site_forget(actor=actor, site=site)
    return plans


def site_delete(*, actor: User, site: Site) -> Deployment | None:
    """The same for one site; None when it stood nowhere."""
    return next(iter(sites_delete(actor=actor, sites=[site])), None)


def site_move(*, actor: User, site: Site, install: EngineInstall) -> list[Deployment]:
    """Plan to serve the site by another server. On one host that is one transaction; between hosts it is put up and
    verified there first, then taken off here: two deployments of a batch, the second waiting for the first."""
    require(actor, Action.CHANGE, site.team)
    _require_all(actor, [site])
    old = _live_or_refuse(site)
    if old.install_id == install.pk:
        raise ApplicationError(f"{site} is already on {install}.", field="install")
    _check_sites(actor, [site], install)
    frozen = frozen_now([(freeze.fetched(site), install)])
    new = revisions_keep(actor=actor, sites=frozen)[site.pk]
    batch, after = uuid4(), {"install": install.pk}
    if old.install.host_id == install.host_id:
        hosts = {install.host: [Change(site, old, new, frozen[0].inputs)]}
        return _plan_and_store(actor, hosts, DeploymentKind.MOVE, batch, after)
    arriving = Change(site, None, new, frozen[0].inputs)
    (first,) = _plan_and_store(actor, {install.host: [arriving]}, DeploymentKind.MOVE, batch, after)
    (second,) = _plan_and_store(actor, {old.install.host: [Change(site, old, None)]}, DeploymentKind.MOVE, batch, {})
    first.plan["after"]["then"] = str(second.uuid)
    second.plan["after"]["waits_for"] = str(first.uuid)
    for deployment in (first, second):
        deployment.save(update_fields=["plan", "updated_at"])
    return [first, second]


# --- confirming ---


def deployment_confirm(*, actor: User, deployment: Deployment, accept_drift: bool = False) -> list[Deployment]:
    """Apply what was shown: the deployment and the others of its batch are queued.

    Raises Conflict when the plan is stale or a site is being deployed already, ApplicationError (code `drift`) when
    files were edited on the host and `accept_drift` is false: they would be overwritten.
    """
    batch = list(Deployment.objects.filter(batch=deployment.batch).select_related("host").order_by("pk"))
    rows = DeploymentItem.objects.filter(deployment__batch=deployment.batch).order_by("deployment", "pk")
    items = list(rows.select_related("deployment", "site__team", "revision__install__host", "previous"))
    _require_all(actor, [item.site for item in items])
    if any(row.status != DeploymentStatus.PLANNED or row.confirmed_at for row in batch):
        raise Conflict(f"{deployment} was confirmed or discarded before; nothing was done again.")
    refuse_paused(row.host for row in batch)
    _refuse_drift(batch, accept_drift)
    with transaction.atomic():
        # One confirmation of a site at a time; SQLite's transactions exclude each other anyway.
        list(Site.objects.select_for_update().filter(pk__in=[item.site_id for item in items]).order_by("pk"))
        _refuse_busy(item.site_id for item in items)
        _refuse_stale(items)
        _confirm_rows(actor, batch)
    return batch


def _refuse_drift(batch: Sequence[Deployment], accept_drift: bool) -> None:
    paths = [path for row in batch for path in row.plan["drifted"]]
    if paths and not accept_drift:
        raise ApplicationError(
            f"Edited on the host since the last deployment: {', '.join(paths)}. Deploying overwrites these edits. "
            "Look at the difference, then confirm that they may go, or adopt them on the drift page.",
            field="accept_drift",
            code="drift",
        )


def _refuse_busy(sites: Iterable[int]) -> None:
    busy = DeploymentItem.objects.filter(site__in=list(sites), deployment__status__in=ACTIVE)
    for item in busy.select_related("site", "deployment"):
        raise Conflict(f"{item.site} is being deployed already. Wait until that has ended, then plan again.")


def _refuse_stale(items: Sequence[DeploymentItem]) -> None:
    """With what the database holds now, read in a constant number of queries."""
    sites = {site.pk: site for site in freeze.with_parts(Site.objects.filter(pk__in=[item.site_id for item in items]))}
    live = live_revisions(sites.values())
    for item in items:
        waits = item.deployment.kind == DeploymentKind.MOVE and item.previous is None
        if not waits and live.get(item.site_id) != item.previous:
            raise Conflict(
                f"This plan is stale: {item.site} stands as {live.get(item.site_id) or 'nothing'} now, not as "
                f"{item.previous or 'nothing'}. Plan again to see what would change."
            )
    _refuse_changed([item for item in items if item.deployment.kind in _RENDERED_NOW], sites)


def _refuse_changed(items: Sequence[DeploymentItem], sites: Mapping[int, Site]) -> None:
    """What the files of these plans were made from must be the same still. Nothing is rendered to know that."""
    placed = {item.site_id: (item, item.revision) for item in items if item.revision}
    for now in frozen_now([(sites[pk], revision.install) for pk, (_, revision) in placed.items()]):
        deployment = placed[now.site.pk][0].deployment
        if now.inputs not in [line.get("inputs") for line in deployment.plan["sites"] if line["id"] == now.site.pk]:
            raise Conflict(
                f"This plan is stale: {now.site} was changed since it was made. Plan again to see what would change."
            )


def _confirm_rows(actor: User, batch: Sequence[Deployment]) -> None:
    confirmed_at = timezone.now()
    for waits in (False, True):
        rows = [row for row in batch if ("waits_for" in row.plan["after"]) == waits]
        status = DeploymentStatus.PLANNED if waits else DeploymentStatus.QUEUED
        planned = Deployment.objects.filter(status=DeploymentStatus.PLANNED, confirmed_at=None)
        values = {"status": status, "confirmed_at": confirmed_at}
        if rows and planned.filter(pk__in=[row.pk for row in rows]).update(**values) != len(rows):
            raise Conflict(f"{rows[0]} was confirmed by someone else just now.")
        for row in rows:
            row.status, row.confirmed_at = status, confirmed_at
    for row in batch:
        if row.plan["after"].get("enabled") is False:
            for item in row.items.select_related("site"):
                if item.site.enabled:
                    site_enable(actor=actor, site=item.site, enabled=False)
    targets = [(row, None, {"batch": str(row.batch)}) for row in batch]
    audit_record_all(actor=actor, action="deployment.confirm", targets=targets)
    wake_workers([row for row in batch if row.status == DeploymentStatus.QUEUED])


def wake_workers(deployments: Sequence[Deployment]) -> None:
    """Tell workers after the commit. A lost message costs time only: the sweep finds what is queued."""
    from panel.deployments.tasks import wake

    uuids = [row.uuid for row in deployments]
    transaction.on_commit(lambda: wake(uuids), robust=True)


def deployment_cancel(*, actor: User, deployment: Deployment) -> Deployment:
    """Discard a plan, or take a queued deployment back. One that runs ends by itself, whole or undone."""
    for item in deployment.items.select_related("site__team"):
        require(actor, Action.DEPLOY, item.site.team)
    with transaction.atomic():
        rows = Deployment.objects.filter(batch=deployment.batch, status__in=_CANCELLABLE)
        if not rows.filter(pk=deployment.pk).exists():
            raise Conflict(f"{deployment} runs or has ended: it cannot be taken back any more. Roll back instead.")
        _take_back_disabling(rows)
        rows.update(status=DeploymentStatus.CANCELLED, finished_at=timezone.now())
        deployment.refresh_from_db()
        audit_record(actor=actor, action="deployment.cancel", target=deployment)
    return deployment


def _take_back_disabling(rows: QuerySet[Deployment]) -> None:
    """Confirming disabled the sites; they stay on their host after all."""
    for row in rows.filter(confirmed_at__isnull=False):
        if row.plan["after"].get("enabled") is False:
            Site.objects.filter(deployment_items__deployment=row).update(enabled=True)


_CANCELLABLE = (DeploymentStatus.PLANNED, DeploymentStatus.QUEUED)
