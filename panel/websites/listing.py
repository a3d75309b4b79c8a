"""Selectors for lists of sites, with a constant number of queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Case, Count, F, Prefetch, Q, QuerySet, Value, When
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.accounts.models import User
from panel.core.tags import tags_used
from panel.hosts.models import Host, HostStatus, WebServer
from panel.hosts.observing import is_recent, recent
from panel.websites.models import ServerName, Site
from panel.websites.selectors import sites_visible
from panel.websites.versions import IS_PENDING

DEPLOYED = ("live", "drifted")
# Choices of the list's filter, by the words of `site_status`.
STATUSES = [
    ("draft", gettext_lazy("Draft")),
    ("live", gettext_lazy("Live")),
    ("failing", gettext_lazy("Deployed, failing")),
    ("unobserved", gettext_lazy("Deployed, not observed")),
    ("drifted", gettext_lazy("Drift")),
    ("disabled", gettext_lazy("Disabled")),
    ("pending", gettext_lazy("Changed since last deployment")),
]
ORDERINGS = {
    "name": ("name",),
    "-name": ("-name",),
    "updated": ("updated_at", "name"),
    "-updated": ("-updated_at", "name"),
    "server": ("web_server__host__name", "web_server__engine", "name"),
    "-server": ("-web_server__host__name", "-web_server__engine", "name"),
}


def sites_listed(user: User) -> QuerySet[Site]:
    """Return the sites that the user can see, loaded with their web server, host, team, state and server names.

    `is_pending` marks sites that need a deployment.
    """
    names = Prefetch("blocks__names", queryset=ServerName.objects.order_by("position", "pk"))
    rows = sites_visible(user).select_related("state", "maintenance", "placed__placement__site")
    return _with_pending(rows.prefetch_related("blocks", names))


def _with_pending(sites: QuerySet[Site]) -> QuerySet[Site]:
    return sites.annotate(is_pending=Case(When(IS_PENDING, then=Value(True)), default=Value(False)))


def sites_on_page(user: User) -> QuerySet[Site]:
    """Return the sites that the user can see, for the page with the list of sites. Only the columns that the page shows
    are loaded. `with_domains` adds the server names.
    """
    columns = ("name", "tags", "updated_at", "team__name", "web_server__engine", "web_server__host__name")
    state = ("state__status", "state__health", "state__health_at")
    seen = ("is_running", "running_changed_at", "host__status", "host__is_paused")
    names = (*columns, *state, *(f"web_server__{name}" for name in seen))
    return _with_pending(sites_visible(user).select_related("state").only(*names))


def with_domains(sites: Iterable[Site]) -> list[Site]:
    """Set the attribute `domains` of each site to all its server names, with one query; return the sites."""
    found = list(sites)
    names: dict[int, list[str]] = {site.pk: [] for site in found}
    rows = ServerName.objects.filter(block__site__in=list(names)).order_by("block__position", "block", "position", "pk")
    for pk, name in rows.values_list("block__site", "name"):
        names[pk].append(name)
    for site in found:
        site.domains = names[site.pk]  # type: ignore[attr-defined]
    return found


def sites_filtered(sites: QuerySet[Site], wanted: dict[str, Any]) -> QuerySet[Site]:
    """Filter sites. `wanted` is SiteFilterForm's cleaned data; empty values do not filter."""
    if wanted.get("q"):
        named = ServerName.objects.filter(name__icontains=wanted["q"]).values("block__site")
        sites = sites.filter(Q(name__icontains=wanted["q"]) | Q(pk__in=named))
    if wanted.get("engine"):
        sites = sites.filter(web_server__engine=wanted["engine"])
    if wanted.get("host"):
        sites = sites.filter(web_server__host=wanted["host"])
    if wanted.get("team"):
        sites = sites.filter(team=wanted["team"])
    if wanted.get("tag"):
        sites = sites_tagged(sites, wanted["tag"])
    return _with_status(sites, wanted.get("status", ""))


def sites_tagged(sites: QuerySet[Site], tag: str) -> QuerySet[Site]:
    """Return those of `sites` that have the tag, or whose host has the tag."""
    return sites.filter(Q(tags__has=tag) | Q(web_server__host__tags__has=tag))


def site_tags(sites: QuerySet[Site]) -> list[str]:
    """Return the tags by which a list of sites can be filtered: tags of the sites, and tags of their hosts."""
    web_servers = WebServer.objects.filter(pk__in=sites.order_by().values("web_server")).values("host")
    return sorted(tags_used(sites) | tags_used(Host.objects.filter(pk__in=web_servers)))


def observed() -> Q:
    """Return the condition for deployed sites whose health is current (see `is_observed`)."""
    return Q(web_server__host__status=HostStatus.READY) & recent("state__health_at", "web_server__host__")


def responding() -> Q:
    """Return the condition for deployed sites whose health page responded as expected (see `health_of`)."""
    before_stop = Q(web_server__is_running=False, state__health_at__lte=F("web_server__running_changed_at"))
    return Q(observed(), state__status__in=DEPLOYED, state__health="answering") & ~before_stop


def live() -> Q:
    """Return the condition for sites whose status is "live" (see `site_status`)."""
    return Q(responding(), state__status="live")


def failing() -> Q:
    """Return the condition for deployed sites whose health page failed (see `health_of`)."""
    return Q(observed(), state__status__in=DEPLOYED, state__health="failing")


def _with_status(sites: QuerySet[Site], status: str) -> QuerySet[Site]:
    """Return those of `sites` with the status `status`, one of STATUSES; all if `status` is empty."""
    if status == "pending":
        return sites.filter(IS_PENDING)
    if status == "live":
        return sites.filter(live())
    if status == "failing":
        return sites.filter(failing())
    if status == "unobserved":
        return sites.filter(state__status="live").exclude(responding()).exclude(failing())
    if status == "drifted":
        return sites.filter(state__status="drifted").exclude(failing())
    if status == "draft":  # a site without a plan has no state
        return sites.filter(Q(state__isnull=True) | Q(state__status="draft"))
    return sites.filter(state__status=status) if status else sites


def sites_changed(user: User, hosts: Iterable[Host]) -> QuerySet[Site]:
    """Return the enabled sites on the given hosts that the user can see and that changed since their last
    deployment.
    """
    return sites_visible(user).filter(IS_PENDING, enabled=True, web_server__host__in=list(hosts))


def changed_by_host(user: User, hosts: Iterable[Host]) -> dict[int, int]:
    """Map the key of each host to its number of sites that changed since their last deployment; hosts without any are
    left out.
    """
    counted = sites_changed(user, hosts).order_by().values_list("web_server__host").annotate(total=Count("pk"))
    return dict(counted)


def site_status(site: Site) -> tuple[str, str]:
    """Return (status, label) of a site; ("draft", "") if the site was never deployed.

    A deployed site is "live" only if its health page responded as expected in the last minutes. A failing site is shown
    as failing even if its files were edited on the host.
    """
    state = getattr(site, "state", None)
    if state is None:
        return "draft", ""
    if state.status not in DEPLOYED:
        return str(state.status), str(state.get_status_display())
    health = health_of(site)
    if health == "failing":
        return "failing", _("Drift, failing") if state.status == "drifted" else _("Deployed, failing")
    if state.status == "drifted" or health == "answering":
        return str(state.status), str(state.get_status_display())
    return "unknown", _("Deployed, not observed")


def health_of(site: Site) -> str:
    """Return the current health of a deployed site as its host sees it: answering, failing, or "" if unknown.

    A response from before the web server was found stopped does not count.
    """
    state: Any = site.state
    web_server = site.web_server
    if web_server is None or not is_observed(site):
        return ""
    changed = web_server.running_changed_at
    if state.health == "answering" and not web_server.is_running and changed and state.health_at <= changed:
        return ""
    return str(state.health)


def is_observed(site: Site) -> bool:
    """Return whether a deployed site's health is current: its host responds and has checked the site recently."""
    host = site.web_server.host if site.web_server else None
    if host is None or host.status != HostStatus.READY:
        return False
    return is_recent(site.state.health_at, is_paused=host.is_paused)


def domains_of(site: Site) -> list[str]:
    """Return all server names of a site from `sites_listed`. Makes no query."""
    return [name.name for block in site.blocks.all() for name in block.names.all()]
