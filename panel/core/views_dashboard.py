"""What the dashboard shows: what needs attention, figures, and the first steps of an empty panel. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, visible
from panel.core.ui import Text
from panel.deployments.models import DeploymentStatus, SiteStatus
from panel.hosts.models import EngineInstall, Host, HostStatus
from panel.notices.concerns import RECENT, concerns, visible_deployments, visible_runs
from panel.websites.models import Site


@dataclass(frozen=True)
class FirstStep:
    title: Text
    detail: Text
    url: str
    action: Text
    is_done: bool
    is_next: bool = False


def dashboard_context(user: User) -> dict[str, Any]:
    figures = _figures(user)
    return {
        "concerns": concerns(user),
        "figures": figures,
        "first_steps": _first_steps(user, figures),
        "recent": visible_deployments(user).filter(superseded_by=None).select_related("host", "requested_by")[:8],
    }


def _figures(user: User) -> dict[str, int]:
    """Counts for the dashboard's head; two queries for hosts, three for what the user's teams own."""
    sites = visible(Site.objects.all(), user)
    live = [SiteStatus.LIVE, SiteStatus.DRIFTED]
    counted = sites.aggregate(sites=Count("pk"), live=Count("pk", filter=Q(state__status__in=live)))
    hosts = Host.objects.aggregate(hosts=Count("pk"), ready=Count("pk", filter=Q(status=HostStatus.READY)))
    since = timezone.now() - RECENT
    week = visible_deployments(user).filter(finished_at__gt=since).values_list("status", flat=True)
    done = [status for status in week if status != DeploymentStatus.CANCELLED]
    return {
        **counted,
        **hosts,
        "servers": EngineInstall.objects.count(),
        "deployments": len(done),
        "verified": sum(status == DeploymentStatus.SUCCEEDED for status in done),
        "runs": visible_runs(user).filter(created_at__gt=since).count(),
    }


class _Step(NamedTuple):
    """`figure` counts what the step leads to: none yet, and the step is still to be taken."""

    title: Text
    detail: Text
    page: str
    action: Text
    figure: str


_STEPS = (
    _Step(
        gettext_lazy("Add a host"),
        gettext_lazy("A machine reached over SSH, or this one."),
        "hosts:add",
        gettext_lazy("Add a host"),
        "ready",
    ),
    _Step(
        gettext_lazy("Find a web server on it"),
        gettext_lazy("nginx, Apache httpd, OpenLiteSpeed, or gallop, which the panel brings along."),
        "hosts:list",
        gettext_lazy("Look at the hosts"),
        "servers",
    ),
    _Step(
        gettext_lazy("Create your first site"),
        gettext_lazy("Its domains, and what answers: files, PHP, or a program behind a proxy."),
        "websites:create",
        gettext_lazy("Create your first site"),
        "sites",
    ),
    _Step(
        gettext_lazy("Deploy it"),
        gettext_lazy("You see every changed line first; the server tests it; a failure puts everything back."),
        "websites:list",
        gettext_lazy("Choose a site"),
        "live",
    ),
    _Step(
        gettext_lazy("Measure it"),
        gettext_lazy("The same site on nginx, Apache and gallop, side by side."),
        "benchmarks:list",
        gettext_lazy("Run a benchmark"),
        "runs",
    ),
)


def _first_steps(user: User, figures: dict[str, int]) -> list[FirstStep]:
    """The way from an empty panel to a measured site; empty once it has been walked, or for who cannot walk it."""
    may_change = may(user, Action.CHANGE)
    has_run = figures["runs"] > 0 or visible_runs(user).exists()
    if not may_change or (figures["live"] and has_run):
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
