"""Selectors for lists of hosts, with a constant number of queries."""

from __future__ import annotations

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


def hosts_listed(user: User) -> QuerySet[Host]:
    """Return the hosts that the user can see, with web servers and `site_count`. Secrets are not loaded."""
    if not may(user, Action.VIEW):
        return Host.objects.none()
    counted = WebServer.objects.filter(host=OuterRef("pk")).order_by().values("host")
    sites = counted.annotate(total=Count("sites")).values("total")
    return (
        hosts_visible(user)
        .defer("private_key", "next_private_key", "password", "sudo_password")
        .prefetch_related(Prefetch("web_servers", queryset=WebServer.objects.order_by("engine", "label")))
        .annotate(site_count=Coalesce(Subquery(sites), 0))
    )


def hosts_filtered(hosts: QuerySet[Host], wanted: dict[str, Any]) -> QuerySet[Host]:
    """Filter hosts by HostFilterForm's cleaned data; empty values do not filter."""
    if wanted.get("q"):
        hosts = hosts.filter(Q(name__icontains=wanted["q"]) | Q(address__icontains=wanted["q"]))
    if wanted.get("status"):
        hosts = _with_status(hosts, wanted["status"])
    if wanted.get("engine"):
        hosts = hosts.filter(pk__in=WebServer.objects.filter(engine=wanted["engine"]).values("host"))
    return with_tags(hosts, [wanted["tag"]] if wanted.get("tag") else [])


def _with_status(hosts: QuerySet[Host], status: str) -> QuerySet[Host]:
    """Filter hosts by the words of `host_status`."""
    if status == UNOBSERVED:
        return hosts.filter(status=HostStatus.READY).exclude(observed())
    return hosts.filter(observed() if status == HostStatus.READY else Q(status=status))
