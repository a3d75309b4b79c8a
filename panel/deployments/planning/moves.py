"""Plan the move of sites to another web server, on the same host or on another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import uuid4

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action
from panel.core.errors import ApplicationError
from panel.deployments.models import Deployment, DeploymentKind, OnSuccess
from panel.deployments.plan import PlanWarning
from panel.deployments.planning.base import (
    Moved,
    Then,
    deployed_or_not,
    leaving_changes,
    live_or_refuse,
    plans_by_host,
    plans_store,
    sites_allowed,
)
from panel.deployments.planning.changes import Change
from panel.deployments.planning.checks import clashes_when_moved, sites_check
from panel.deployments.planning.disabled_files import disabled_revisions
from panel.deployments.planning.selectors import live_revisions
from panel.deployments.pool_moves import pools_plan
from panel.deployments.revisions.rendered import frozen_now, revisions_keep
from panel.hosts.models import Host, WebServer
from panel.websites.checks import refuse_host_of_others
from panel.websites.models import Site
from panel.websites.services import site_web_server_set
from panel.websites.services.base import move_guards

# Hook for apps that depend on this one (publishing): warnings in the plan of a move to another host. Called with the
# sites, each with its old host.
notes: list[Callable[[Mapping[Site, Host], WebServer], list[PlanWarning]]] = []


def site_move(*, actor: User, site: Site, web_server: WebServer, php_version: str = "") -> list[Deployment]:
    """Plan to move the site to another web server.

    A move on one host is one transaction. For a move to another host, the site is first deployed and verified there,
    then removed from the old host: two deployments of a batch, the second waiting for the first.
    """
    if not disabled_revisions([site]):
        live_or_refuse(site)
    return sites_move(actor=actor, sites=[site], web_server=web_server, php_version=php_version)


def sites_move(*, actor: User, sites: Iterable[Site], web_server: WebServer, php_version: str = "") -> list[Deployment]:
    """Plan to move many sites: one deployment on the new host, then one on each host that they leave.

    All other deployments wait for the first one of the batch. Undeployed sites need no plan: `web_server` becomes their
    web server at once, if the plan for the others succeeds. Files of disabled sites are removed from their hosts.
    PHP-FPM pools of deployed sites are created on the new host, with their own PHP version or with `php_version`.
    """
    deployed, nowhere = deployed_or_not(sites_allowed(actor, sites, Action.CHANGE, Action.DEPLOY))
    for site in (*deployed, *nowhere):
        refuse_host_of_others(site, web_server)
    disabled = disabled_revisions(deployed)
    for check in move_guards:
        check([*(site for site in deployed if site.pk in disabled), *nowhere], web_server)
    if disabled and len(disabled) < len(deployed) + len(nowhere):
        names = ", ".join(site.name for site in deployed if site.pk in disabled)
        raise ApplicationError(
            f"Disabled sites: {names}. Move disabled sites separately from enabled sites.", field="sites"
        )
    if disabled:
        return plans_by_host(actor, DeploymentKind.MOVE, leaving_changes(deployed), Then(OnSuccess.MOVE, web_server))
    if nowhere:
        _move_drafts(actor, nowhere, deployed, web_server, is_comparison=True)
    plans = _move_plans(actor, deployed, nowhere, web_server, php_version) if deployed else []
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


def _move_plans(
    actor: User, chosen: Sequence[Site], beside: Sequence[Site], web_server: WebServer, php_version: str
) -> list[Deployment]:
    old = live_revisions(chosen)
    there = [site.name for site in chosen if old[site.pk].web_server_id == web_server.pk]
    if there:
        raise ApplicationError(
            f"These sites are already on {web_server}: {', '.join(there)}. Choose another web "
            "server, or leave these sites out.",
            field="web_server",
        )
    hosts = {site: old[site.pk].web_server.host for site in chosen}
    away = {site: host for site, host in hosts.items() if host.pk != web_server.host_id}
    pools = pools_plan(actor, away, web_server, php_version)
    frozen = frozen_now([(site, web_server) for site in sites_check(actor, chosen, web_server, beside)])
    new = revisions_keep(actor=actor, sites=frozen)
    changes = []
    for item in frozen:
        before = None if item.site in away else old[item.site.pk]
        changes.append(Change(item.site, before, new[item.site.pk], item.site.version))
    leaving: dict[Host, list[Change]] = {}
    for site, host in away.items():
        leaving.setdefault(host, []).append(Change(site, old[site.pk], None))
    moved = Moved(pools, [warning for note in notes if away for warning in note(away, web_server)])
    batch, then = uuid4(), Then(OnSuccess.MOVE, web_server)
    (first,) = plans_store(actor, {web_server.host: changes}, DeploymentKind.MOVE, batch, then, moved)
    after_first = Then(waits_for=first)
    rest = plans_store(actor, leaving, DeploymentKind.MOVE, batch, after_first) if leaving else []
    return [first, *rest]
