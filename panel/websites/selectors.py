"""Reads of the desired state, limited to the user's access."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from django.db.models import Q, QuerySet
from django.utils import timezone

from panel.accounts.models import Role, User
from panel.accounts.permissions import Action, may, visible
from panel.hosts.selectors import hosts_visible
from panel.rendering.targets import LocalServices
from panel.websites.access_lists import named
from panel.websites.models import AccessList, Allowance, AllowanceKind, Certificate, Location, ServerBlock, Site
from panel.websites.web_server_specs import services_of


def sites_visible(user: User) -> QuerySet[Site]:
    return visible(Site.objects.select_related("team", "web_server__host"), user)


def allowances_visible(user: User) -> QuerySet[Allowance]:
    """Allowances: all for an administrator; otherwise those of the user's teams, and services for all teams."""
    rows = Allowance.objects.select_related("team", "host", "granted_by")
    if user.role == Role.ADMIN or not may(user, Action.VIEW):
        return visible(rows, user)
    return rows.filter(Q(team=None) | Q(team__in=user.teams.all()))


def local_services_of(site: Site) -> list[str]:
    """Sockets and addresses of the site's host that the site's team may use, for example `unix:/run/php/shop.sock`."""
    if site.web_server is None:
        return []
    allowed = services_of(site.team, site.web_server.host).allowed
    return sorted({value for value in allowed if _is_one_service(value)})


def php_sockets(user: User) -> list[tuple[str, str]]:
    """Sockets of PHP pools that the user can choose for a new site, each with its host: those that checks of hosts
    found, if the user may use them.
    """
    rows = allowances_visible(user).filter(kind=AllowanceKind.SERVICE).values_list("host", "value")
    allowed: dict[int | None, list[str]] = {}
    for host_id, value in [] if user.is_admin else rows:
        allowed.setdefault(host_id, []).append(value)
    found = []
    for host in hosts_visible(user).only("name", "facts").order_by("name"):
        addresses = [f"unix:{path}" for path in host.facts.get("php_sockets", ()) if isinstance(path, str)]
        services = LocalServices(allowed=tuple(allowed.get(host.pk, ())), is_any=user.is_admin)
        found += [(address, host.name) for address in addresses if services.permits(address)]
    return found


def _is_one_service(value: str) -> bool:
    """False for folders (`unix:/run/php/*`) and ranges of ports (`127.0.0.1:3000-3999`)."""
    return not value.endswith("*") if value.startswith("unix:") else value.rpartition(":")[2].isdigit()


def access_lists_visible(user: User) -> QuerySet[AccessList]:
    return visible(AccessList.objects.select_related("team"), user)


def sites_of_access_lists(lists: Iterable[AccessList]) -> dict[str, list[Site]]:
    """Sites whose access rules name each of these lists, by name of the list, in the order of the sites' names."""
    teams = {row.name: row.team_id for row in lists}
    found: dict[str, list[Site]] = {name: [] for name in teams}
    rows = Location.objects.filter(block__site__team__in=set(teams.values())).exclude(access_rules=[])
    using: dict[int, set[str]] = {}
    for site, rules in rows.values_list("block__site", "access_rules"):
        using.setdefault(site, set()).update(named(rules) & found.keys())
    for row in Site.objects.filter(pk__in=[site for site, names in using.items() if names]).order_by("name"):
        for name in using[row.pk]:
            if teams[name] == row.team_id:  # names are unique, but a list serves its own team only
                found[name].append(row)
    return found


def sites_of_access_list(access_list: AccessList) -> list[Site]:
    """Sites whose access rules name the list, in the order of their names."""
    return sites_of_access_lists([access_list])[access_list.name]


def access_lists_used(site: Site) -> list[str]:
    """Names of the access lists that a site's access rules name."""
    rows = Location.objects.filter(block__site=site).values_list("access_rules", flat=True)
    return sorted({name for rules in rows for name in named(rules)})


def certificates_visible(user: User) -> QuerySet[Certificate]:
    return visible(Certificate.objects.select_related("team", "host"), user)


def certificates_expired(sites: Iterable[Site]) -> dict[int, list[Certificate]]:
    """Expired certificates in the drafts of these sites, by the site's id."""
    found: dict[int, list[Certificate]] = {}
    rows = ServerBlock.objects.filter(site__in=sites, certificate__not_after__lte=timezone.now())
    for block in rows.select_related("certificate").order_by("position"):
        assert block.certificate is not None
        if block.certificate not in found.setdefault(block.site_id, []):
            found[block.site_id].append(block.certificate)
    return found


def certificates_expiring(user: User, *, within_days: int = 21) -> QuerySet[Certificate]:
    """Certificates in use that expire within `within_days` or have expired, soonest first."""
    limit = timezone.now() + datetime.timedelta(days=within_days)
    rows = certificates_visible(user).filter(not_after__lte=limit, blocks__isnull=False)
    return rows.distinct().order_by("not_after")
