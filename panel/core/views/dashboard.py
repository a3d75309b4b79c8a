"""Contents of the dashboard: alerts, figures, and the first steps in an empty panel. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, teams_read
from panel.alerts.selectors import RECENT, alerts, visible_runs
from panel.core.ui import Text
from panel.deployments.models import DEPLOYED, DeploymentStatus
from panel.deployments.selectors import deployments_finished, deployments_on_page, with_own_sites
from panel.hosts.observing import observed
from panel.hosts.selectors import hosts_visible, web_servers_visible
from panel.websites.listing import live
from panel.websites.selectors import sites_visible
from panel.websites.versions import IS_PENDING


@dataclass(frozen=True)
class FirstStep:
    title: Text
    detail: Text
    url: str
    action: Text
    is_done: bool
    is_next: bool = False


def dashboard_context(user: User) -> dict[str, object]:
    teams_read(user)
    figures = _figures(user)
    return {
        "alerts": alerts(user, changed=figures["changed"]),
        "figures": figures,
        "first_steps": _first_steps(user, figures),
        "recent": with_own_sites(user, deployments_on_page(user).filter(superseded_by=None)[:8]),
    }


def _figures(user: User) -> dict[str, int]:
    """Return the counts at the top of the dashboard; two queries for hosts, at most four for the teams' objects."""
    sites = sites_visible(user)
    deployed = Q(state__status__in=DEPLOYED)
    counted = sites.aggregate(
        sites=Count("pk"),
        deployed=Count("pk", filter=deployed),
        live=Count("pk", filter=live()),
        changed=Count("pk", filter=IS_PENDING),
    )
    hosts = hosts_visible(user).aggregate(hosts=Count("pk"), ready=Count("pk", filter=observed()))
    since = timezone.now() - RECENT
    done = deployments_finished(user, since).exclude(status=DeploymentStatus.CANCELLED)
    week = done.order_by().aggregate(deployments=Count("pk"), verified=Count("pk", filter=Q(is_verified=True)))
    return {
        **counted,
        **hosts,
        "servers": web_servers_visible(user).count(),
        **week,
        "runs": visible_runs(user).filter(created_at__gt=since).count(),
    }


class _Step(NamedTuple):
    """One of the first steps in an empty panel. The step is done once the count named `figure` is above 0."""

    title: Text
    detail: Text
    page: str
    action: Text
    figure: str


_STEPS = (
    _Step(
        gettext_lazy("Add a host"),
        gettext_lazy("Paddock manages hosts over SSH, and the panel's own host without SSH."),
        "hosts:add",
        gettext_lazy("Add a host"),
        "ready",
    ),
    _Step(
        gettext_lazy("Find the host's web servers"),
        gettext_lazy("Paddock finds nginx, Apache, OpenLiteSpeed, and gallop, Paddock's own web server."),
        "hosts:list",
        gettext_lazy("Go to hosts"),
        "servers",
    ),
    _Step(
        gettext_lazy("Create your first site"),
        gettext_lazy("Set the domains and the content of the site: files, PHP, or a proxied application."),
        "websites:create",
        gettext_lazy("Create your first site"),
        "sites",
    ),
    _Step(
        gettext_lazy("Deploy the site"),
        gettext_lazy(
            "Review every changed line before you deploy. The web server tests the configuration, and "
            "Paddock rolls back if a step fails."
        ),
        "websites:list",
        gettext_lazy("Choose a site"),
        "deployed",
    ),
    _Step(
        gettext_lazy("Benchmark the site"),
        gettext_lazy("Compare the same site on nginx, Apache, and gallop."),
        "benchmarks:list",
        gettext_lazy("Run a benchmark"),
        "runs",
    ),
)


def _first_steps(user: User, figures: dict[str, int]) -> list[FirstStep]:
    """Return the steps from an empty panel to a measured site; [] once done, or for users who may not change sites."""
    may_change = may(user, Action.CHANGE)
    has_run = figures["runs"] > 0 or visible_runs(user).exists()
    if not may_change or (figures["deployed"] and has_run):
        return []
    done = figures | {"runs": int(has_run)}
    following = next((index for index, step in enumerate(_STEPS) if not done[step.figure]), -1)
    return [
        FirstStep(
            step.title,
            step.detail,
            reverse(step.page) if index == following else "",
            step.action,
            bool(done[step.figure]),
            index == following,
        )
        for index, step in enumerate(_STEPS)
    ]
