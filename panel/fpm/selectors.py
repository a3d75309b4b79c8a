"""Selectors: PHP-FPM pools, and their state as their hosts last reported it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import visible
from panel.deployments.confirmation.services import ACTIVE
from panel.deployments.models import (
    DEPLOYED,
    Deployment,
    DeploymentItem,
    DeploymentKind,
    DeploymentStatus,
    OnSuccess,
    SiteState,
)
from panel.fpm.models import FpmPool
from panel.fpm.reading import CURRENT, Verdict, is_edited, verdict
from panel.fpm.rules import folder_of
from panel.hosts.edited_files import EditedFile
from panel.hosts.models import Host, HostJob, HostJobKind
from panel.rendering.fpm import PoolSpec, pool_file
from panel.websites.models import Site

ACTIONS = ("apply", "remove")


def pools_visible(user: User) -> QuerySet[FpmPool]:
    rows = FpmPool.objects.select_related("site__team", "site__web_server", "host")
    return visible(rows, user, team_path="site__team")


def pool_of(user: User, site: Site, host: str = "") -> FpmPool | None:
    """Return the pool of a site on the host of its web server, or on the host with the name `host`."""
    rows = pools_visible(user).filter(site=site)
    return (rows.filter(host__name=host) if host else rows.filter(host=site_host())).first()


def site_host() -> F:
    """Return the host of a pool's site, for queries of pools."""
    return F("site__web_server__host")


def pools_left(user: User, site: Site) -> QuerySet[FpmPool]:
    """Return the pools of a site on other hosts than that of its web server, where moves left them."""
    return pools_visible(user).filter(site=site).exclude(host=site_host())


def pools_on(host: Host) -> list[FpmPool]:
    """Return the pools whose files Paddock has written to this host."""
    return list(FpmPool.objects.filter(host=host).exclude(text=""))


def pool_spec(pool: FpmPool) -> PoolSpec:
    return PoolSpec(
        pool.name,
        pool.account,
        pool.owner,
        pool.group,
        pool.folder,
        pool.max_children,
        pool.memory_mb,
        pool.upload_mb,
    )


def is_changed(pool: FpmPool) -> bool:
    """Return whether the pool's saved settings differ from those on the host."""
    return bool(pool.text) and pool_file(pool_spec(pool)) != pool.text


def state_of(pool: FpmPool) -> Verdict:
    return verdict(pool.text, pool.seen, _is_current(pool), pool.problem)


def _is_current(pool: FpmPool) -> bool:
    return pool.seen_at is not None and timezone.now() - pool.seen_at < CURRENT


def pools_edited(user: User) -> list[EditedFile]:
    """Return the files of pools that were edited or deleted on their hosts, for the page of drift."""
    rows = pools_visible(user).exclude(text="")
    return [
        EditedFile(
            row.path,
            row.host.name,
            row.name,
            reverse("fpm:pool", args=[row.site.name]),
            row.seen_at,
            is_deleted=not row.seen["digest"],
        )
        for row in rows
        if is_edited(row.text, row.seen, _is_current(row))
    ]


def last_job(pool: FpmPool) -> HostJob | None:
    """Return the newest job that changed the pool on its host; None if there is none."""
    rows = HostJob.objects.filter(host=pool.host, kind=HostJobKind.FPM_POOL, params__name=pool.name)
    return rows.order_by("-created_at").first()


def suggested_folder(site: Site) -> str:
    """Return the folder of the site's files, derived from its document roots, as the default of the pool's form; "" if
    unknown.
    """
    roots = [root for root in site.blocks.order_by("position").values_list("root", flat=True) if root]
    return folder_of(roots, site.web_server.host.site_roots) if site.web_server else ""


def accounts_of_others(site: Site, host: Host) -> set[str]:
    """Return the accounts that pools of other teams on the host run as."""
    rows = FpmPool.objects.filter(host=host).exclude(site__team=site.team)
    return set(rows.order_by().values_list("account", flat=True))


def is_leaving(site: Site) -> bool:
    """Return whether a planned or running deployment will delete the site, or move it to another host, when it
    succeeds.
    """
    unfinished = (DeploymentStatus.PLANNED, DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)
    host = site.web_server.host_id if site.web_server else None
    leaves = Q(on_success=OnSuccess.DELETE) | (Q(on_success=OnSuccess.MOVE) & ~Q(target__host=host))
    return Deployment.objects.filter(leaves, items__site=site, status__in=unfinished).exists()


def live_users(pool: FpmPool) -> list[str]:
    """Return the names of sites on the pool's host whose live revision refers to the socket of the PHP-FPM pool, and of
    sites that a queued or running deployment still has to remove from the host.
    """
    # Anywhere in the specification: raw directives can name the socket too.
    live = SiteState.objects.filter(revision__web_server__host=pool.host, status__in=DEPLOYED)
    leaving = DeploymentItem.objects.filter(previous__web_server__host=pool.host, deployment__status__in=ACTIVE)
    names = live.filter(revision__spec__icontains=pool.socket).values_list("site__name", flat=True)
    return sorted({*names, *leaving.filter(previous__spec__icontains=pool.socket).values_list("site__name", flat=True)})


def is_arriving(pool: FpmPool) -> bool:
    """Return whether a queued or running deployment moves the pool's site to the host of the pool."""
    rows = DeploymentItem.objects.filter(site=pool.site_id, revision__isnull=False, previous=None)
    return rows.filter(
        deployment__host=pool.host_id, deployment__kind=DeploymentKind.MOVE, deployment__status__in=ACTIVE
    ).exists()


def sockets_of_teams(hosts: Iterable[int]) -> dict[int, dict[str, int]]:
    """Return {primary key of a host: {path of a pool's socket: primary key of a team}}. Only sites of the team can use
    the socket.
    """
    found: dict[int, dict[str, int]] = {}
    rows = FpmPool.objects.filter(host__in=list(hosts)).values_list("host", "name", "site__team")
    for host, name, team in rows.order_by():
        found.setdefault(host, {})[FpmPool(name=name).socket] = team
    return found


def job_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Validate and return the parameters of a job that writes or removes a pool: {"name", "action", "replace"}.
    "action" is apply or remove. Raises ValidationError.
    """
    if not {"name", "action"} <= set(params) <= {"name", "action", "replace"} or params["action"] not in ACTIONS:
        raise ValidationError({"params": _("Set the name of the pool and the action: apply or remove.")})
    if not FpmPool.objects.filter(name=params["name"], host=host).exists():
        raise ValidationError({"name": _("The host %s has no PHP-FPM pool with this name.") % host.name})
    return {"name": params["name"], "action": params["action"], "replace": params.get("replace") is True}
