"""Selectors: server comparisons that a user can see, and web servers on which a copy of a site can be measured."""

from __future__ import annotations

from django.db.models import Prefetch, QuerySet

from panel.accounts.models import User
from panel.benchmarks.models import Scenario
from panel.benchmarks.selectors import scenarios_visible
from panel.comparisons.models import Comparison, Contender
from panel.deployments.models import DeploymentStatus
from panel.deployments.planning.selectors import live_revision
from panel.hosts.models import WebServer
from panel.websites.models import Site
from panel.websites.selectors import sites_visible


def comparisons_visible(user: User) -> QuerySet[Comparison]:
    """Return the comparisons of sites that the user can see."""
    contenders = Contender.objects.select_related("web_server__host")
    names = ("site__team", "site__web_server__host", "requested_by", "run", "switch")
    rows = Comparison.objects.filter(site__in=sites_visible(user)).select_related(*names)
    return rows.prefetch_related(Prefetch("contenders", queryset=contenders))


def candidates(site: Site) -> QuerySet[WebServer]:
    """Return the other web servers on the host of a deployed site; none if the site is not deployed."""
    revision = live_revision(site)
    if revision is None:
        return WebServer.objects.none()
    rows = WebServer.objects.filter(host=revision.web_server.host).exclude(pk=revision.web_server_id)
    return rows.select_related("host").order_by("engine", "pk")


def loads(user: User) -> QuerySet[Scenario]:
    return scenarios_visible(user)


def last_switch(site: Site) -> Comparison | None:
    """Return the last comparison that moved the site to one of its web servers; None if the site has since been moved
    to a web server outside that comparison, or if no comparison moved the site.
    """
    rows = site.comparisons.filter(switch__status=DeploymentStatus.SUCCEEDED).order_by("-switch__finished_at")
    comparison = rows.select_related("site", "run", "switch").prefetch_related("contenders__web_server").first()
    if comparison is None or not any(row.web_server_id == site.web_server_id for row in comparison.contenders.all()):
        return None
    return comparison
