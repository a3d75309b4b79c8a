"""Plan deployments: deploy, roll back, disable, delete, move, overwrite.

Nothing reaches a host before `deployment_confirm`, which applies exactly the plan that was shown. If the site, the
files on the host, or the server changed since, the plan is rejected as outdated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require_each
from panel.audit.services import audit_record_all
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.confirmation.services import (
    ACTIVE,
    deployment_cancel,
    deployment_confirm,
    refuse_busy,
    wake_workers,
)
from panel.deployments.locking import sites_lock
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind, OnSuccess, Revision
from panel.deployments.planning.changes import Change
from panel.deployments.planning.checks import clashes_when_moved, old_parts_check, sites_check
from panel.deployments.planning.disabled_files import can_stay_disabled, disabled_revisions
from panel.deployments.planning.live_versions import live_versions_recognize
from panel.deployments.planning.plans import plans_make
from panel.deployments.planning.selectors import live_revision, live_revisions
from panel.deployments.planning.superseding import supersede
from panel.deployments.revisions.rendered import frozen_now, is_unchecked, revisions_keep, spec_of
from panel.deployments.rollback.services import is_said
from panel.hosts.models import Host, WebServer
from panel.websites import freeze
from panel.websites.checks import refuse_host_of_others
from panel.websites.listing import sites_changed
from panel.websites.models import Site
from panel.websites.services import site_delete as site_forget
from panel.websites.services import site_enable, site_web_server_set, upstreams_follow
from panel.websites.services.base import deletion_guards, move_guards

__all__ = [
    "ACTIVE",
    "deployment_cancel",
    "deployment_confirm",
    "deployment_plan",
    "hosts_plan",
    "site_delete",
    "site_disable",
    "site_move",
    "site_rollback",
    "sites_delete",
    "sites_disable",
    "sites_move",
    "wake_workers",
]


@dataclass(frozen=True)
class Then:
    """Fields of a new Deployment: the deployment that it waits for, and the follow-up after its success."""

    on_success: OnSuccess = OnSuccess.NOTHING
    target: WebServer | None = None
    waits_for: Deployment | None = None


NOTHING_ELSE = Then()


def _allowed(actor: User, sites: Iterable[Site], *actions: Action) -> list[Site]:
    """Return the sites without duplicates. Raises PermissionDenied if the actor lacks a permission (default: deploy)
    for one of the sites, ApplicationError if `sites` is empty."""
    found = list({site.pk: site for site in sites}.values())
    if not found:
        raise ApplicationError("No sites selected. Choose at least one site.", field="sites")
    for action in actions or (Action.DEPLOY,):
        require_each(actor, action, (site.team for site in found))
    return found


def _plan_and_store(
    actor: User | None, hosts: Mapping[Host, Sequence[Change]], kind: DeploymentKind, batch: UUID, then: Then
) -> list[Deployment]:
    # A renewed certificate neither needs nor overwrites a file that somebody edited.
    plans = plans_make(hosts, only_changes=kind == DeploymentKind.CERTIFICATE)
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


def _by_host(
    actor: User | None, kind: DeploymentKind, changes: Iterable[tuple[Host, Change]], then: Then = NOTHING_ELSE
) -> list[Deployment]:
    """Plan the changes: one deployment for every host, all in one batch."""
    hosts: dict[Host, list[Change]] = {}
    for host, change in changes:
        hosts.setdefault(host, []).append(change)
    return _plan_and_store(actor, {host: hosts[host] for host in sorted(hosts, key=str)}, kind, uuid4(), then)


def changes_plan(
    kind: DeploymentKind, changes: Iterable[tuple[Host, Change]], actor: User | None = None
) -> list[Deployment]:
    """Plan changes on behalf of another service, without a check of permissions; `actor` None is the panel itself."""
    return _by_host(actor, kind, changes)


def deployment_plan(
    *, actor: User, sites: Iterable[Site], kind: DeploymentKind = DeploymentKind.DEPLOY
) -> list[Deployment]:
    """Freeze and render the sites and plan the changes: one deployment for each host, in one batch.

    `kind`: DEPLOY, DISABLE (remove from service) or OVERWRITE (restore the last deployed files). Raises ValidationError
    with messages by field path, PermissionDenied, ApplicationError.
    """
    chosen = _allowed(actor, sites)
    make = {
        DeploymentKind.DEPLOY: _deploy_changes,
        DeploymentKind.DISABLE: _disable_changes,
        DeploymentKind.OVERWRITE: _overwrite_changes,
    }.get(kind)
    if make is None:
        raise ApplicationError(
            "Paddock rolls back and moves one site at a time. Use the endpoints below /api/v1/sites/NAME/.",
            field="kind",
        )
    then = Then(OnSuccess.DISABLE) if kind == DeploymentKind.DISABLE else NOTHING_ELSE
    return _by_host(actor, kind, make(actor, chosen), then)


def hosts_plan(*, actor: User, hosts: Iterable[Host]) -> list[Deployment]:
    """Plan the deployment of all sites on `hosts` that changed since their last deployment, except sites that the actor
    must not see. Raises ApplicationError if no site changed."""
    chosen = list(hosts)
    sites = list(sites_changed(actor, chosen))
    if not sites:
        names = ", ".join(sorted(host.name for host in chosen))
        text = (
            f"Nothing has changed since the last deployment on {names or 'the selected hosts'}, so there is "
            "nothing to plan."
        )
        raise ApplicationError(text, field="hosts")
    return deployment_plan(actor=actor, sites=sites)


def _deploy_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    upstreams_follow([site.pk for site in sites])
    placed = [(site, site.web_server) for site in sites_check(actor, sites) if site.web_server]
    host_agent.connect_soon(
        web_server.host for _, web_server in placed
    )  # connect while the sites are frozen and rendered
    live, disabled = live_revisions(sites, [web_server for _, web_server in placed]), disabled_revisions(sites)
    frozen = frozen_now(placed)
    new = revisions_keep(actor=actor, sites=frozen)
    changes = []
    for item in frozen:
        pk = item.site.pk
        change = Change(item.site, live.get(pk), new[pk], item.site.version, disabled.get(pk))
        changes.append((item.web_server.host, change))
    return changes


def _live_or_refuse(site: Site) -> Revision:
    revision = live_revision(site)
    if revision is None:
        raise ApplicationError(f"{site} is not deployed, so there is nothing to remove or overwrite.", field="sites")
    return revision


def _disable_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    """Return the changes that disable deployed sites. Raises ApplicationError if a site is not deployed.

    The web server no longer loads the files of these sites. The files stay on the host, except on OpenLiteSpeed (see
    disabled_files.py).
    """
    live = [(site, _live_or_refuse(site)) for site in sites]
    return [
        (old.web_server.host, Change(site, old, None, disabled_after=old if can_stay_disabled(old) else None))
        for site, old in live
    ]


def _leaving_changes(sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    """Return the changes that remove deployed or disabled sites completely from their hosts."""
    live, disabled = live_revisions(sites), disabled_revisions(sites)
    changes = [Change(site, live.get(site.pk), None, disabled_before=disabled.get(site.pk)) for site in sites]
    return [(before.web_server.host, item) for item in changes if (before := item.old or item.disabled_before)]


def _overwrite_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    disabled, found = disabled_revisions(sites), []
    for site in sites:
        if kept := disabled.get(site.pk):
            found.append((kept.web_server.host, Change(site, None, None, disabled_before=kept, disabled_after=kept)))
        else:
            old = _live_or_refuse(site)
            found.append((old.web_server.host, Change(site, old, old)))
    return found


def site_rollback(*, actor: User, site: Site, revision: Revision) -> Deployment:
    """Plan to restore an earlier revision exactly. The draft stays unchanged and can be deployed again."""
    _allowed(actor, [site])
    if revision.site_id != site.pk:
        raise ApplicationError(f"{revision} is not a revision of {site}.", field="revision")
    if site.web_server_id != revision.web_server_id:
        raise ApplicationError(
            f"{revision} is for {revision.web_server}, but the site now uses {site.web_server or 'no web server'}. "
            "Move the site back first.",
            field="revision",
        )
    if not site.enabled:
        raise ApplicationError(f"{site} is disabled. Enable it first.", field="enabled")
    if freeze.maintenance_of(site) or spec_of(revision).maintenance:
        raise ApplicationError(
            f"{site} or {revision} shows a maintenance page, so Paddock cannot roll the site back. End the "
            "maintenance, or choose a revision without a maintenance page.",
            field="revision",
        )
    old_parts_check(actor, site, revision)
    if is_unchecked(revision):
        raise ApplicationError(
            f"{revision} is older than the check that keeps a site's paths inside the site's folders. Restore "
            "the draft from this revision, then deploy the draft.",
            field="revision",
        )
    site.refresh_from_db(fields=["version"])
    version = site.version if is_said(site, revision) else None
    change = Change(site, live_revision(site), revision, version, disabled_revisions([site]).get(site.pk))
    return _by_host(actor, DeploymentKind.ROLLBACK, [(revision.web_server.host, change)])[0]


def _deployed_or_not(chosen: Sequence[Site], *, with_disabled: bool = True) -> tuple[list[Site], list[Site]]:
    """Split sites into two lists: sites on a host (deployed, or disabled there), and sites on none. Raises Conflict if
    a deployment of a site in the second list runs.
    """
    there = live_revisions(chosen).keys() | (disabled_revisions(chosen).keys() if with_disabled else set())
    nowhere = [site for site in chosen if site.pk not in there]
    refuse_busy(site.pk for site in nowhere)
    return [site for site in chosen if site.pk in there], nowhere


def sites_disable(*, actor: User, sites: Iterable[Site]) -> list[Deployment]:
    """Plan to disable the deployed sites, and disable the other sites at once. Return the planned deployments; [] if no
    site is deployed.

    The web server no longer loads the files of these sites. The files stay on the host, except on OpenLiteSpeed (see
    disabled_files.py).
    """
    deployed, nowhere = _deployed_or_not(_allowed(actor, sites), with_disabled=False)
    plans = deployment_plan(actor=actor, sites=deployed, kind=DeploymentKind.DISABLE) if deployed else []
    with transaction.atomic():
        for site in nowhere:
            site_enable(actor=actor, site=site, enabled=False)
    return plans


def site_disable(*, actor: User, site: Site) -> Deployment | None:
    """Plan to disable one site; return None if the site was not deployed, because it is then disabled at once."""
    return next(iter(sites_disable(actor=actor, sites=[site])), None)


def sites_delete(*, actor: User, sites: Iterable[Site]) -> list[Deployment]:
    """Plan to remove the sites from their hosts, and return the planned deployments. After success, the sites are
    deleted with their history. Sites that are on no host are deleted at once.
    """
    deployed, nowhere = _deployed_or_not(_allowed(actor, sites, Action.CHANGE, Action.DEPLOY))
    for check in deletion_guards:
        check(deployed)
    changes = _leaving_changes(deployed)
    plans = _by_host(actor, DeploymentKind.DISABLE, changes, Then(OnSuccess.DELETE)) if changes else []
    with transaction.atomic():
        for site in nowhere:
            site_forget(actor=actor, site=site)
    return plans


def site_delete(*, actor: User, site: Site) -> Deployment | None:
    """Plan to remove and delete one site; return None if the site was not deployed, because it is then deleted at
    once."""
    return next(iter(sites_delete(actor=actor, sites=[site])), None)


def site_move(*, actor: User, site: Site, web_server: WebServer) -> list[Deployment]:
    """Plan to move the site to another web server.

    A move on one host is one transaction. For a move to another host, the site is first deployed and verified there,
    then removed from the old host: two deployments of a batch, the second waiting for the first.
    """
    if not disabled_revisions([site]):
        _live_or_refuse(site)
    return sites_move(actor=actor, sites=[site], web_server=web_server)


def sites_move(*, actor: User, sites: Iterable[Site], web_server: WebServer) -> list[Deployment]:
    """Plan to move many sites: one deployment on the new host, then one on each host that they leave.

    All other deployments wait for the first one of the batch. Undeployed sites need no plan: `web_server` becomes their
    web server at once, if the plan for the others succeeds. Files of disabled sites are removed from their hosts.
    """
    deployed, nowhere = _deployed_or_not(_allowed(actor, sites, Action.CHANGE, Action.DEPLOY))
    for site in (*deployed, *nowhere):
        refuse_host_of_others(site, web_server)
    for check in move_guards:
        check([*deployed, *nowhere], web_server)
    disabled = disabled_revisions(deployed)
    if disabled and len(disabled) < len(deployed) + len(nowhere):
        names = ", ".join(site.name for site in deployed if site.pk in disabled)
        raise ApplicationError(
            f"Disabled sites: {names}. Move disabled sites separately from enabled sites.", field="sites"
        )
    if disabled:
        return _by_host(actor, DeploymentKind.MOVE, _leaving_changes(deployed), Then(OnSuccess.MOVE, web_server))
    if nowhere:
        _move_drafts(actor, nowhere, deployed, web_server, is_comparison=True)
    plans = _move_plans(actor, deployed, nowhere, web_server) if deployed else []
    if nowhere:
        _move_drafts(actor, nowhere, deployed, web_server)
    return plans


def _move_drafts(
    actor: User, drafts: Sequence[Site], beside: Sequence[Site], web_server: WebServer, *, is_comparison: bool = False
) -> None:
    """Assign the new web server to drafts. Raises ValidationError if a draft has a conflict with another site on that
    web server, or with a site in `beside`, which the same action moves.

    `is_comparison`: only check, and roll back the changes in the database.
    """
    clashes = clashes_when_moved(actor, [*drafts, *beside], web_server)
    faults = {
        f"{site.name}/{problem.where}": [problem.message]
        for site in drafts
        if site.enabled
        for problem in clashes[site.pk]
    }
    if faults:
        raise ValidationError(faults)
    rows = Site.objects.filter(pk__in=[site.pk for site in drafts]).select_related("team", "web_server__host")
    with transaction.atomic():
        for site in rows:
            site_web_server_set(actor=actor, site=site, web_server=web_server, may_clash=True)
        transaction.set_rollback(is_comparison)


def _move_plans(actor: User, chosen: Sequence[Site], beside: Sequence[Site], web_server: WebServer) -> list[Deployment]:
    old = live_revisions(chosen)
    there = [site.name for site in chosen if old[site.pk].web_server_id == web_server.pk]
    if there:
        raise ApplicationError(
            f"These sites are already on {web_server}: {', '.join(there)}. Choose another web "
            "server, or leave these sites out.",
            field="web_server",
        )
    frozen = frozen_now([(site, web_server) for site in sites_check(actor, chosen, web_server, beside)])
    new = revisions_keep(actor=actor, sites=frozen)
    here = {site.pk for site in chosen if old[site.pk].web_server.host_id == web_server.host_id}
    changes = []
    for item in frozen:
        before = old[item.site.pk] if item.site.pk in here else None
        changes.append(Change(item.site, before, new[item.site.pk], item.site.version))
    leaving: dict[Host, list[Change]] = {}
    for site in chosen:
        if site.pk not in here:
            leaving.setdefault(old[site.pk].web_server.host, []).append(Change(site, old[site.pk], None))
    batch, then = uuid4(), Then(OnSuccess.MOVE, web_server)
    (first,) = _plan_and_store(actor, {web_server.host: changes}, DeploymentKind.MOVE, batch, then)
    after_first = Then(waits_for=first)
    rest = _plan_and_store(actor, leaving, DeploymentKind.MOVE, batch, after_first) if leaving else []
    return [first, *rest]
