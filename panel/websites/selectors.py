"""Selectors: sites, certificates, allowances and shared settings that a user can see."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from panel.accounts.models import Role, Team, User
from panel.accounts.permissions import Action, may, team_keys, visible
from panel.hosts.selectors import hosts_visible
from panel.rendering.targets import LocalServices
from panel.websites import shared
from panel.websites.models import (
    AccessList,
    Allowance,
    AllowanceKind,
    Certificate,
    DirectiveSet,
    HeaderSet,
    Location,
    RawSnippet,
    ServerBlock,
    SharedSetting,
    Site,
    StreamServer,
)
from panel.websites.web_server_specs import services_of, sockets_on

SHARED_SETTINGS: tuple[type[SharedSetting], ...] = (AccessList, HeaderSet, DirectiveSet)

# Of certificates: a server block or stream server uses it.
CERTIFICATE_IS_USED = Exists(ServerBlock.objects.filter(certificate=OuterRef("pk"))) | Exists(
    StreamServer.objects.filter(certificate=OuterRef("pk"))
)


def sites_visible(user: User) -> QuerySet[Site]:
    return visible(Site.objects.select_related("team", "web_server__host"), user)


def site_again(site: Site) -> Site:
    """Load the site again from the database before a change, because a form may have modified the object `site`."""
    return Site.objects.select_related("team", "web_server__host").get(pk=site.pk)


def row_version_of(site: Site) -> int:
    return Site.objects.values_list("row_version", flat=True).get(pk=site.pk)


def sites_of_teams(teams: QuerySet[Team]) -> QuerySet[Site]:
    return Site.objects.filter(team__in=teams)


def has_site_named(name: str) -> bool:
    """Return whether a site of any team has this name."""
    return Site.objects.filter(name=name).exists()


def certificates_of(site: Site) -> QuerySet[Certificate]:
    """Return the certificates that the draft of a site uses."""
    return Certificate.objects.filter(Q(blocks__site=site) | Q(stream_servers__site=site)).distinct()


def certificates_of_team(team_id: int) -> QuerySet[Certificate]:
    return Certificate.objects.filter(team=team_id)


def allowances_visible(user: User) -> QuerySet[Allowance]:
    """Return the allowances that the user can see. Administrators see all. Other users see the allowances of their
    teams, and the services that all teams may use.
    """
    rows = Allowance.objects.select_related("team", "host", "granted_by")
    if user.role == Role.ADMIN or not may(user, Action.VIEW):
        return visible(rows, user)
    return rows.filter(Q(team=None) | Q(team__in=user.teams.all()))


def local_services_of(site: Site) -> list[str]:
    """Return the sockets and addresses of the site's host that the site's team may use, for example
    `unix:/run/php/shop.sock`.
    """
    if site.web_server is None:
        return []
    allowed = services_of(site.team, site.web_server.host).allowed
    return sorted({value for value in allowed if _is_one_service(value)})


def php_sockets(user: User) -> list[tuple[str, str]]:
    """Return (socket address, host name) pairs of the PHP pools that the user may choose for a new site.

    The sockets are those that the last check of each host found.
    """
    rows = allowances_visible(user).filter(kind=AllowanceKind.SERVICE).values_list("host", "value")
    allowed: dict[int | None, list[str]] = {}
    for host_id, value in [] if user.is_admin else rows:
        allowed.setdefault(host_id, []).append(value)
    found = []
    hosts = list(hosts_visible(user).only("name", "facts").order_by("name"))
    reserved, teams = sockets_on(host.pk for host in hosts), set(team_keys(user))
    for host in hosts:
        sockets = reserved.get(host.pk, {})
        own = [f"unix:{path}" for path, team in sockets.items() if team in teams]
        addresses = [f"unix:{path}" for path in host.facts.get("php_sockets", ()) if isinstance(path, str)]
        listed = (*allowed.get(host.pk, ()), *own)
        services = LocalServices(allowed=listed, reserved=frozenset(sockets), is_any=user.is_admin)
        found += [(address, host.name) for address in addresses if services.permits(address)]
    return found


def _is_one_service(value: str) -> bool:
    """Return whether the value of an allowance is a single socket or port, not a folder (`unix:/run/php/*`) or a range
    of ports (`127.0.0.1:3000-3999`).
    """
    return not value.endswith("*") if value.startswith("unix:") else value.rpartition(":")[2].isdigit()


S = TypeVar("S", bound=SharedSetting)


def shared_settings_visible(model: type[S], user: User) -> QuerySet[S]:
    """Return the access lists, header sets or directive sets of the user's teams."""
    return visible(model._default_manager.select_related("team"), user)


def sites_of_shared_settings(model: type[S], rows: Iterable[S]) -> dict[str, list[Site]]:
    """Map the name of each of `rows`, shared settings of one kind, to the sites that use it, ordered by name."""
    teams = {row.name: row.team_id for row in rows}
    found: dict[str, list[Site]] = {name: [] for name in teams}
    using: dict[int, set[str]] = {}
    for pk, used in _names_used(model, Q(team__in=set(teams.values()))):
        using.setdefault(pk, set()).update(used & found.keys())
    for site in Site.objects.filter(pk__in=[pk for pk, names in using.items() if names]).order_by("name"):
        for name in using[site.pk]:
            if teams[name] == site.team_id:  # names are unique, but a setting serves its own team only
                found[name].append(site)
    return found


def sites_of_shared_setting(row: SharedSetting) -> list[Site]:
    """Return the sites that use a shared setting, ordered by name."""
    return sites_of_shared_settings(type(row), [row])[row.name]


def shared_settings_used(site: Site) -> dict[type[SharedSetting], list[str]]:
    """Map each kind of shared setting that a site uses to the names of the settings."""
    found = {}
    for model in SHARED_SETTINGS:
        if names := {name for _, used in _names_used(model, Q(pk=site.pk)) for name in used}:
            found[model] = sorted(names)
    return found


def snippets_of_directive_set(row: DirectiveSet) -> list[RawSnippet]:
    """Return the raw directives of the team's sites that use the directive set."""
    rows = RawSnippet.objects.filter(site__team=row.team, engine=row.engine, text__contains=f"{shared.MARK}{row.name}")
    rows = rows.select_related("site__team", "site__web_server__host", "block__site", "location__block__site")
    return [snippet for snippet in rows.order_by("pk") if row.name in shared.directive_sets_named(snippet.text)]


def _names_used(model: type[SharedSetting], sites: Q) -> Iterator[tuple[int, set[str]]]:
    """Yield (site id, names of the shared settings of one kind that the site uses) for sites that match `sites`. An id
    can repeat.
    """
    chosen = Site.objects.filter(sites)
    if model is DirectiveSet:
        texts = RawSnippet.objects.filter(site__in=chosen, text__contains=shared.MARK)
        yield from ((site, shared.directive_sets_named(text)) for site, text in texts.values_list("site", "text"))
        return
    locations = Location.objects.filter(block__site__in=chosen)
    if model is AccessList:
        rules = locations.exclude(access_rules=[]).values_list("block__site", "access_rules")
        yield from ((site, shared.lists_named(items)) for site, items in rules)
        return
    blocks = ServerBlock.objects.filter(site__in=chosen).exclude(headers=[]).values_list("site", "headers")
    for rows in (blocks, locations.exclude(headers=[]).values_list("block__site", "headers")):
        yield from ((site, shared.header_sets_named(items)) for site, items in rows)


def certificates_visible(user: User) -> QuerySet[Certificate]:
    return visible(Certificate.objects.select_related("team", "host"), user)


def certificates_expired(sites: Iterable[Site]) -> dict[int, list[Certificate]]:
    """Map the id of each given site to the expired certificates that its draft uses. Sites without expired certificates
    are left out.
    """
    found: dict[int, list[Certificate]] = {}
    expired = {"site__in": sites, "certificate__not_after__lte": timezone.now()}
    blocks = ServerBlock.objects.filter(**expired).select_related("certificate").order_by("position")
    streams = StreamServer.objects.filter(**expired).select_related("certificate")
    owners: Iterable[ServerBlock | StreamServer] = chain(blocks, streams)
    for owner in owners:
        assert owner.certificate is not None
        if owner.certificate not in found.setdefault(owner.site_id, []):
            found[owner.site_id].append(owner.certificate)
    return found


def certificates_expiring(user: User, *, within_days: int = 21) -> QuerySet[Certificate]:
    """Return certificates that drafts use and that have expired or expire in `within_days` days, soonest first."""
    limit = timezone.now() + datetime.timedelta(days=within_days)
    is_used = Q(blocks__isnull=False) | Q(stream_servers__isnull=False)
    return certificates_visible(user).filter(is_used, not_after__lte=limit).distinct().order_by("not_after")
