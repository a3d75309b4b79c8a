"""Services of placements: place a site on hosts by tags, and plan the deployments of its copies.

A copy is an independent site: it is deployed, rolled back, watched, and measured like any other site. A copy has the
definition of the placement's site, with the host's own values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError
from panel.core.models import version_bump
from panel.deployments.models import Deployment
from panel.deployments.planning.services import deployment_plan, sites_delete
from panel.hosts.models import Host, WebServer
from panel.placements.choosing import targets
from panel.placements.models import PlacedSite, Placement
from panel.placements.values import with_values
from panel.websites import paths
from panel.websites.listing import sites_changed
from panel.websites.models import Site
from panel.websites.services import site_define
from panel.websites.services.definition import site_export

LOGS = ("access_log", "error_log")


@dataclass(frozen=True)
class Update:
    """Result of updating the copies of placements in the panel.

    `added` and `changed` are copies, `leaving` are copies on hosts that no longer have the tags, `problems` are texts
    by host name.
    """

    added: list[Site] = field(default_factory=list)
    changed: list[Site] = field(default_factory=list)
    leaving: list[Site] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Planned:
    """Plans for the hosts of placements, in two batches.

    `deploy` deploys copies. `leave` removes copies from hosts that no longer have the placement's tags, and then
    deletes these copies.
    """

    deploy: list[Deployment]
    leave: list[Deployment]
    update: Update


@transaction.atomic
def placement_set(
    *, actor: User, site: Site, tags: Sequence[str], values: Any = None, expected_version: int | None = None
) -> Placement:
    """Place a site on every host that has all of the given tags, or change its placement. Nothing is deployed.

    `values` are the fields that differ on single hosts, as in Placement. Raises PermissionDenied, ValidationError,
    Conflict.
    """
    require(actor, Action.CHANGE, site.team)
    placement = Placement.objects.filter(site=site).first()
    before = _told(placement) if placement else None
    if placement is None:
        placement = Placement(site=site)
    else:
        version_bump(placement, expected_version)
    placement.tags, placement.values = list(tags), {} if values is None else values
    placement.full_clean()
    placement.save()
    audit_record(actor=actor, action="placement.set", target=site, before=before, after=_told(placement))
    return placement


@transaction.atomic
def placement_delete(*, actor: User, placement: Placement) -> None:
    """Delete the placement. Its copies stay on their hosts, as independent sites."""
    require(actor, Action.CHANGE, placement.site.team)
    audit_record(actor=actor, action="placement.delete", target=placement.site, before=_told(placement))
    placement.delete()


def placements_plan(*, actor: User, placements: Iterable[Placement]) -> Planned:
    """Update the copies of these placements, and plan their deployments: one per host for all placements.

    Raises PermissionDenied, ValidationError if a copy is invalid, and ApplicationError if there is nothing to plan.
    """
    chosen = list(placements)
    for placement in chosen:
        for action in (Action.CHANGE, Action.DEPLOY):
            require(actor, action, placement.site.team)
    with transaction.atomic():
        update = _joined([copies_update(actor=actor, placement=placement) for placement in chosen])
    copies = Site.objects.filter(placed__placement__in=chosen).exclude(pk__in=[site.pk for site in update.leaving])
    never = copies.filter(Q(state=None) | Q(state__deployed_at=None))
    due = [*never, *sites_changed(actor, _hosts(copies)).filter(pk__in=copies)]
    sites = list({site.pk: site for site in due}.values())
    if not sites and not update.leaving:
        reasons = " ".join(f"{host}: {why}" for host, why in sorted(update.problems.items()))
        raise ApplicationError(_("Every host is up to date, so there is nothing to plan. %s") % reasons)
    deploy = deployment_plan(actor=actor, sites=sites) if sites else []
    leave = sites_delete(actor=actor, sites=update.leaving) if update.leaving else []
    return Planned(deploy, leave, update)


@transaction.atomic
def copies_update(*, actor: User, placement: Placement) -> Update:
    """Create and change the drafts of a placement's copies; nothing is deployed or removed."""
    locked = (
        Placement.objects.select_for_update(of=("self",))
        .select_related("site__team", "site__web_server")
        .get(pk=placement.pk)
    )
    known = {copy.site.web_server_id: copy for copy in locked.copies.select_related("site__team", "site__web_server")}
    update, definition = Update(), site_export(locked.site, with_secrets=True)
    wanted = targets(locked)
    for host in sorted(set(locked.values) - {target.host.name for target in wanted}):
        update.problems[host] = _("The placement has values for this host, but the host does not have the tags.")
    for target in wanted:
        if target.web_server is None:
            update.problems[target.host.name] = target.problem
        else:
            _copy_update(actor, locked, definition, target.web_server, known.get(target.web_server.pk), update)
    there = {target.web_server.pk for target in wanted if target.web_server}
    update.leaving.extend(copy.site for pk, copy in known.items() if pk not in there)
    return update


def _copy_update(
    actor: User,
    placement: Placement,
    definition: Any,
    web_server: WebServer,
    copy: PlacedSite | None,
    update: Update,
) -> None:
    own = (placement.site.version, placement.row_version)
    if copy is not None and (copy.site_version, copy.placement_version) == own:
        return
    data = definition_of_copy(placement, definition, web_server)
    try:
        site = site_define(actor=actor, data=data, site=copy.site if copy else None, action="placement.copy")
    except ValidationError as error:
        faults = {f"{web_server.host.name}/{key}": value for key, value in error.message_dict.items()}
        raise ValidationError(faults) from error
    if copy is None:
        PlacedSite.objects.create(placement=placement, site=site, site_version=own[0], placement_version=own[1])
        update.added.append(site)
    else:
        PlacedSite.objects.filter(pk=copy.pk).update(site_version=own[0], placement_version=own[1])
        update.changed.append(site)


def definition_of_copy(placement: Placement, definition: Any, web_server: WebServer) -> dict[str, object]:
    """Return the definition of the site's copy on `web_server`, with the values and the log folder of that host."""
    source = placement.site
    copied = with_values(definition, placement.values.get(web_server.host.name, {}))
    blocks: Any = copied["blocks"]
    for block in blocks:
        block |= {name: paths.log_on(block[name], source.web_server, web_server) for name in LOGS}
    name = copy_name(source.name, web_server.host.name)
    return copied | {"name": name, "web_server": web_server.pk, "enabled": True}


def copy_name(site: str, host: str) -> str:
    """Return the name of a site's copy on a host: a valid name with at most 63 characters."""
    return f"{site[:30].rstrip('-')}-{host.replace('_', '-')[:32].strip('-')}"


def _joined(updates: Sequence[Update]) -> Update:
    problems = {host: why for update in updates for host, why in update.problems.items()}
    return Update(
        [site for update in updates for site in update.added],
        [site for update in updates for site in update.changed],
        [site for update in updates for site in update.leaving],
        problems,
    )


def _hosts(copies: QuerySet[Site]) -> list[Host]:
    return list({site.web_server.host for site in copies.select_related("web_server__host") if site.web_server})


def _told(placement: Placement) -> dict[str, object]:
    return {"tags": placement.tags, "values": placement.values}
