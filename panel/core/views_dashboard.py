"""What the dashboard shows: what needs attention, figures, and the first steps of an empty panel. Reads only."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count, F, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, visible
from panel.benchmarks.models import Run, RunStatus
from panel.core.ui import Text
from panel.deployments.models import Deployment, DeploymentStatus, DriftResolution, SiteState, SiteStatus
from panel.hosts.models import EngineInstall, Host, HostStatus
from panel.reports.selectors import alarming
from panel.websites.models import Certificate, Site

PER_KIND = 6
EXPIRY_WARNING = dt.timedelta(days=30)
RECENT = dt.timedelta(days=7)


_HOST_ADVICE: dict[str, Text] = {
    HostStatus.NEW: gettext_lazy("Compare its key's fingerprint and trust it"),
    HostStatus.KEY_CHANGED: gettext_lazy("Nothing is sent to it until you have compared its new key"),
    HostStatus.UNREACHABLE: gettext_lazy("Check it to see why; its sites may well go on answering"),
}


@dataclass(frozen=True)
class Concern:
    """One thing to look at: `status` chooses its look, `kind` says what `title` names, `url` leads to where it is
    dealt with."""

    status: str
    label: Text
    kind: Text
    title: str
    detail: Text
    url: str
    at: dt.datetime | None = None


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
        "recent": _visible_deployments(user).select_related("host", "requested_by")[:8],
    }


def concerns(user: User) -> list[Concern]:
    """Worst first: hosts, failed deployments, drift, certificates, unbelievable runs, what reports say, then what
    merely waits."""
    return [
        *_hosts(),
        *_paused(),
        *_failures(user),
        *_drifts(user),
        *_certificates(user),
        *_runs(user),
        *_reports(user),
        *_planned(user),
        *_pending(user),
    ]


def _hosts() -> list[Concern]:
    expected = {"is_paused": True, "status": HostStatus.UNREACHABLE}  # somebody works on the machine
    rows = Host.objects.exclude(status=HostStatus.READY).exclude(**expected).order_by("-status", "name")[:PER_KIND]
    return [
        Concern(
            row.status,
            row.get_status_display(),
            _("Host"),
            row.name,
            row.status_detail.strip().split("\n")[0] or _HOST_ADVICE.get(row.status, ""),
            reverse("hosts:detail", args=[row.name]),
            row.last_seen_at,
        )
        for row in rows
    ]


def _paused() -> list[Concern]:
    well = (HostStatus.READY, HostStatus.UNREACHABLE)
    rows = Host.objects.filter(status__in=well, is_paused=True).order_by("name")[:PER_KIND]
    words = _("Nothing is deployed or measured there until it is resumed")
    return [
        Concern("paused", _("Paused"), _("Host"), row.name, words, reverse("hosts:detail", args=[row.name]))
        for row in rows
    ]


def _failures(user: User) -> list[Concern]:
    states = visible(SiteState.objects.filter(last_failure__isnull=False), user, team_path="site__team")
    rows = states.select_related("site", "last_failure").order_by("-last_failure__created_at")[:PER_KIND]
    found = []
    for row in rows:
        failure = row.last_failure
        assert failure is not None
        label, detail = failure.get_status_display(), failure.error.strip().split("\n")[0]
        url = reverse("deployments:detail", args=[failure.uuid])
        found.append(Concern(failure.status, label, _("Site"), row.site.name, detail, url, failure.finished_at))
    return found


def _drifts(user: User) -> list[Concern]:
    sites = visible(Site.objects.all(), user).filter(drifts__resolution=DriftResolution.OPEN)
    rows = sites.annotate(files=Count("drifts", filter=Q(drifts__resolution=DriftResolution.OPEN)))
    return [
        Concern(
            "drifted",
            _("Drifted"),
            _("Site"),
            row.name,
            ngettext("%d file was edited on the host", "%d files were edited on the host", row.files) % row.files,
            reverse("websites:detail", args=[row.name]),
        )
        for row in rows.order_by("name")[:PER_KIND]
    ]


def _reports(user: User) -> list[Concern]:
    return [
        Concern(
            row.outcome,
            row.get_outcome_display(),
            _("Report"),
            row.title,
            row.headline.split("\n")[0],
            reverse("reports:detail", args=[row.uuid]),
            row.created_at,
        )
        for row in alarming(user, timezone.now() - RECENT)[:PER_KIND]
    ]


def _certificates(user: User) -> list[Concern]:
    now = timezone.now()
    used = visible(Certificate.objects.filter(not_after__lt=now + EXPIRY_WARNING), user).order_by("not_after")
    return [
        Concern(
            "expired" if row.not_after < now else "expiring",
            _("Expired") if row.not_after < now else _("Expires soon"),
            _("Certificate"),
            row.name,
            ", ".join(row.names[:3]),
            reverse("websites:certificate", args=[row.name]),
            row.not_after,
        )
        for row in used[:PER_KIND]
    ]


def _visible_runs(user: User) -> QuerySet[Run]:
    return visible(Run.objects.all(), user, team_path="targets__site__team").distinct()


def _runs(user: User) -> list[Concern]:
    bad = _visible_runs(user).filter(
        status__in=[RunStatus.INVALID, RunStatus.FAILED], created_at__gt=timezone.now() - RECENT
    )
    return [
        Concern(
            row.status,
            row.get_status_display(),
            _("Benchmark run"),
            row.title,
            row.error.strip().split("\n")[0] or " ".join(str(reason) for reason in row.reasons),
            reverse("benchmarks:detail", args=[row.uuid]),
            row.finished_at,
        )
        for row in bad[:PER_KIND]
    ]


def _visible_deployments(user: User) -> QuerySet[Deployment]:
    return visible(Deployment.objects.all(), user, team_path="items__site__team").distinct()


def _planned(user: User) -> list[Concern]:
    rows = _visible_deployments(user).filter(status=DeploymentStatus.PLANNED, created_at__gt=timezone.now() - RECENT)
    return [
        Concern(
            row.status,
            row.get_status_display(),
            _("Host"),
            row.host.name,
            _("A plan waits to be confirmed"),
            reverse("deployments:detail", args=[row.uuid]),
            row.created_at,
        )
        for row in rows.select_related("host")[:PER_KIND]
    ]


def _pending(user: User) -> list[Concern]:
    changed = visible(Site.objects.all(), user).filter(
        enabled=True, state__deployed_at__isnull=False, updated_at__gt=F("state__deployed_at")
    )
    return [
        Concern(
            "pending",
            _("Changed"),
            _("Site"),
            row.name,
            _("Changed since it was deployed: plan a deployment to bring it to its host"),
            reverse("websites:detail", args=[row.name]),
            row.updated_at,
        )
        for row in changed.order_by("-updated_at")[:PER_KIND]
    ]


def _figures(user: User) -> dict[str, int]:
    """Counts for the dashboard's head; two queries for hosts, three for what the user's teams own."""
    sites = visible(Site.objects.all(), user)
    live = [SiteStatus.LIVE, SiteStatus.DRIFTED]
    counted = sites.aggregate(sites=Count("pk"), live=Count("pk", filter=Q(state__status__in=live)))
    hosts = Host.objects.aggregate(hosts=Count("pk"), ready=Count("pk", filter=Q(status=HostStatus.READY)))
    since = timezone.now() - RECENT
    week = _visible_deployments(user).filter(finished_at__gt=since).values_list("status", flat=True)
    done = [status for status in week if status != DeploymentStatus.CANCELLED]
    return {
        **counted,
        **hosts,
        "servers": EngineInstall.objects.count(),
        "deployments": len(done),
        "verified": sum(status == DeploymentStatus.SUCCEEDED for status in done),
        "runs": _visible_runs(user).filter(created_at__gt=since).count(),
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
    has_run = figures["runs"] > 0 or _visible_runs(user).exists()
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
