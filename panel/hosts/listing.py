"""Selectors for lists of hosts, with a constant number of queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.core.tags import with_tags
from panel.hosts.models import Host, HostStatus, WebServer
from panel.hosts.observing import UNOBSERVED, observed
from panel.hosts.selectors import hosts_visible

ORDERINGS = {
    "name": ("name",),
    "-name": ("-name",),
    "sites": ("site_count", "name"),
    "-sites": ("-site_count", "name"),
    "seen": ("last_seen_at", "name"),
    "-seen": ("-last_seen_at", "name"),
}

_WEB_SERVER_ORDER = ("engine", "label")


def hosts_listed(user: User) -> QuerySet[Host]:
    """Return the hosts that the user can see, with web servers and the number of sites (`site_count`). Secrets are not
    loaded.
    """
    rows = _with_site_count(user).defer("private_key", "next_private_key", "password", "sudo_password")
    return rows.prefetch_related(Prefetch("web_servers", queryset=WebServer.objects.order_by(*_WEB_SERVER_ORDER)))


def hosts_on_page(user: User) -> QuerySet[Host]:
    """Return the hosts that the user can see, with the number of sites (`site_count`), for the page with the list of
    hosts.

    Only the columns that the page shows are loaded; `with_web_servers` adds the web servers.
    """
    shown = ("name", "tags", "status", "is_paused", "connection", "address", "port", "last_seen_at")
    return _with_site_count(user).only(*shown)


def with_web_servers(hosts: Iterable[Host]) -> list[Host]:
    """Set the attribute `shown_web_servers` of each host to its web servers, with one query; return the hosts."""
    found = list(hosts)
    web_servers: dict[int, list[WebServer]] = {host.pk: [] for host in found}
    rows = WebServer.objects.filter(host__in=list(web_servers)).order_by(*_WEB_SERVER_ORDER)
    for row in rows.only("host", "engine", "label", "version"):
        web_servers[row.host_id].append(row)
    for host in found:
        host.shown_web_servers = web_servers[host.pk]  # type: ignore[attr-defined]
    return found


def _with_site_count(user: User) -> QuerySet[Host]:
    if not may(user, Action.VIEW):
        return Host.objects.none()
    counted = WebServer.objects.filter(host=OuterRef("pk")).order_by().values("host")
    sites = counted.annotate(total=Count("sites")).values("total")
    return hosts_visible(user).annotate(site_count=Coalesce(Subquery(sites), 0))


def hosts_filtered(hosts: QuerySet[Host], wanted: dict[str, Any]) -> QuerySet[Host]:
    """Return the hosts that match `wanted`, the cleaned data of a HostFilterForm; an empty value does not filter."""
    if wanted.get("q"):
        hosts = hosts.filter(Q(name__icontains=wanted["q"]) | Q(address__icontains=wanted["q"]))
    if wanted.get("status"):
        hosts = _with_status(hosts, wanted["status"])
    if wanted.get("engine"):
        hosts = hosts.filter(pk__in=WebServer.objects.filter(engine=wanted["engine"]).values("host"))
    return with_tags(hosts, [wanted["tag"]] if wanted.get("tag") else [])


def _with_status(hosts: QuerySet[Host], status: str) -> QuerySet[Host]:
    """Return the hosts with the status `status`, as chosen in the filter of the list: a value of HostStatus, or
    "unobserved" for ready hosts that were not checked recently.
    """
    if status == UNOBSERVED:
        return hosts.filter(status=HostStatus.READY).exclude(observed())
    return hosts.filter(observed() if status == HostStatus.READY else Q(status=status))
