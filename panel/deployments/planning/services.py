"""Plan deployments: deploy, roll back, disable, delete, move, overwrite.

Nothing reaches a host before `deployment_confirm`, which applies exactly the plan that was shown. If the site, the
files on the host, or the server changed since, the plan is rejected as outdated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.confirmation.services import (
    ACTIVE,
    deployment_cancel,
    deployment_confirm,
    wake_workers,
)
from panel.deployments.models import Deployment, DeploymentKind, OnSuccess, Revision
from panel.deployments.planning.base import (
    NOTHING_ELSE,
    Then,
    deployed_or_not,
    leaving_changes,
    live_or_refuse,
    plans_by_host,
    sites_allowed,
)
from panel.deployments.planning.changes import Change
from panel.deployments.planning.checks import old_parts_check, sites_check
from panel.deployments.planning.disabled_files import can_stay_disabled, disabled_revisions
from panel.deployments.planning.moves import site_move, sites_move
from panel.deployments.planning.selectors import live_revision, live_revisions
from panel.deployments.revisions.rendered import frozen_now, is_unchecked, revisions_keep, spec_of
from panel.deployments.rollback.services import is_said
from panel.hosts.models import Host
from panel.websites import freeze
from panel.websites.listing import sites_changed
from panel.websites.models import Site
from panel.websites.services import site_delete as site_forget
from panel.websites.services import site_enable, upstreams_follow
from panel.websites.services.base import deletion_guards

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


def changes_plan(
    kind: DeploymentKind, changes: Iterable[tuple[Host, Change]], actor: User | None = None
) -> list[Deployment]:
    """Plan changes on behalf of another service, without a check of permissions; `actor` None is the panel itself."""
    return plans_by_host(actor, kind, changes)


def deployment_plan(
    *, actor: User, sites: Iterable[Site], kind: DeploymentKind = DeploymentKind.DEPLOY
) -> list[Deployment]:
    """Freeze and render the sites and plan the changes: one deployment for each host, in one batch.

    `kind`: DEPLOY, DISABLE (remove from service) or OVERWRITE (restore the last deployed files). Raises ValidationError
    with messages by field path, PermissionDenied, ApplicationError.
    """
    chosen = sites_allowed(actor, sites)
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
    return plans_by_host(actor, kind, make(actor, chosen), then)


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


def _disable_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    """Return the changes that disable deployed sites. Raises ApplicationError if a site is not deployed.

    The web server no longer loads the files of these sites. The files stay on the host, except on OpenLiteSpeed (see
    disabled_files.py).
    """
    live = [(site, live_or_refuse(site)) for site in sites]
    return [
        (old.web_server.host, Change(site, old, None, disabled_after=old if can_stay_disabled(old) else None))
        for site, old in live
    ]


def _overwrite_changes(actor: User, sites: Sequence[Site]) -> list[tuple[Host, Change]]:
    disabled, found = disabled_revisions(sites), []
    for site in sites:
        if kept := disabled.get(site.pk):
            found.append((kept.web_server.host, Change(site, None, None, disabled_before=kept, disabled_after=kept)))
        else:
            old = live_or_refuse(site)
            found.append((old.web_server.host, Change(site, old, old)))
    return found


def site_rollback(*, actor: User, site: Site, revision: Revision) -> Deployment:
    """Plan to restore an earlier revision exactly. The draft stays unchanged and can be deployed again."""
    sites_allowed(actor, [site])
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
    return plans_by_host(actor, DeploymentKind.ROLLBACK, [(revision.web_server.host, change)])[0]


def sites_disable(*, actor: User, sites: Iterable[Site]) -> list[Deployment]:
    """Plan to disable the deployed sites, and disable the other sites at once. Return the planned deployments; [] if no
    site is deployed.

    The web server no longer loads the files of these sites. The files stay on the host, except on OpenLiteSpeed (see
    disabled_files.py).
    """
    deployed, nowhere = deployed_or_not(sites_allowed(actor, sites), with_disabled=False)
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
    deployed, nowhere = deployed_or_not(sites_allowed(actor, sites, Action.CHANGE, Action.DEPLOY))
    for check in deletion_guards:
        check(deployed)
    changes = leaving_changes(deployed)
    plans = plans_by_host(actor, DeploymentKind.DISABLE, changes, Then(OnSuccess.DELETE)) if changes else []
    with transaction.atomic():
        for site in nowhere:
            site_forget(actor=actor, site=site)
    return plans


def site_delete(*, actor: User, site: Site) -> Deployment | None:
    """Plan to remove and delete one site; return None if the site was not deployed, because it is then deleted at
    once."""
    return next(iter(sites_delete(actor=actor, sites=[site])), None)
