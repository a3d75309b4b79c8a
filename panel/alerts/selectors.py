"""Selectors of alerts for the dashboard and for mails. Users see hosts, and objects of their own teams."""

from __future__ import annotations

import datetime as dt
import re
from functools import partial

from django.db.models import Count, F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, teams_read, visible
from panel.alerts.certificates import (
    certificate_alerts,
    fault_alerts,
    live_alerts,
    order_alerts,
    permission_alerts,
    presented_alerts,
    revocation_alerts,
)
from panel.alerts.fpm_pools import fpm_pool_alerts
from panel.alerts.host_certificates import host_certificate_alerts
from panel.alerts.kinds import Alert, Source
from panel.alerts.models import AlertMail
from panel.alerts.presence import existing, found_in
from panel.alerts.resources import reboot_alerts, trouble_alerts
from panel.alerts.virtual_addresses import virtual_address_alerts
from panel.benchmarks.models import Run, RunStatus
from panel.benchmarks.selectors import runs_visible
from panel.core.addresses import address
from panel.core.pages import unindexed
from panel.core.ui import Text
from panel.deployments.models import (
    DEPLOYED,
    Deployment,
    DeploymentStatus,
    Drift,
    DriftResolution,
    Health,
    NameWatch,
    SiteState,
)
from panel.deployments.selectors import deployments_visible, shared_with_others, states_on_running_servers
from panel.hosts.models import Host, HostStatus, WebServer
from panel.hosts.observing import STALE_AFTER, observed
from panel.hosts.selectors import hosts_visible
from panel.reports.choices import NOTEWORTHY
from panel.reports.models import Report
from panel.reports.selectors import alarming
from panel.rollouts.choices import RolloutStatus
from panel.rollouts.models import Rollout
from panel.rollouts.selectors import rollouts_visible
from panel.websites.models import Allowance, Site
from panel.websites.versions import IS_PENDING

PER_KIND = 6  # alerts of one kind on a page
MANY = 10  # if at least this many times `most` sites have changed drafts, an index finds the newest of them fast
RECENT = dt.timedelta(days=7)
_LOGGED = re.compile(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (?=\[\w+\])|(?<=\]) \d+#\d+:(?= )")

_LOST = (HostStatus.UNREACHABLE, HostStatus.KEY_CHANGED)
_FAILS = Q(health=Health.FAILING) | Q(health=Health.ANSWERING, reach=Health.FAILING)
_BAD_RUNS = (RunStatus.INVALID, RunStatus.FAILED)
_WAITS = Q(status=DeploymentStatus.PLANNED, confirmed_at=None)

_HOST_ADVICE: dict[str, Text] = {
    HostStatus.NEW: gettext_lazy("Compare the fingerprint of the host's SSH key, and trust the key"),
    HostStatus.KEY_CHANGED: gettext_lazy("Paddock sends nothing to this host until you trust its new SSH key"),
    HostStatus.UNREACHABLE: gettext_lazy("Check the host to find the cause; the sites on this host may still respond"),
}


def alerts(user: User, most: int = PER_KIND, *, changed: int | None = None) -> list[Alert]:
    """Return the alerts that `user` is allowed to see, most severe first; at most `most` of each kind.

    The order is: hosts, stopped web servers, failing sites, failed deployments, drift, certificates, invalid runs,
    reports, then items that wait for a decision. `changed` is the number of the user's sites with draft changes, if
    known.
    """
    teams_read(user)
    later = (_unobserved, _runs, _reports, _new_hosts, _services, _paused, reboot_alerts, _planned)
    pending = partial(_pending, are_many=(changed or 0) > MANY * most)
    return _of((*_mailed(), *later, *((pending,) if changed != 0 else ())), user, most)


def mailed_alerts(user: User, most: int) -> list[Alert]:
    """Return the alerts that mails report. Runs of schedules are not included: their reports are mailed separately."""
    return _of(_mailed(), user, most)


def _mailed() -> tuple[Source, ...]:
    hosts = (_hosts, virtual_address_alerts, _stopped, _failing, fpm_pool_alerts, trouble_alerts)
    presented = (presented_alerts, live_alerts, revocation_alerts, fault_alerts)
    certificates = (order_alerts, permission_alerts, certificate_alerts, host_certificate_alerts, *presented)
    return (*hosts, _failures, _rollouts, _drifts, _names, *certificates)


def _of(sources: tuple[Source, ...], user: User, most: int) -> list[Alert]:
    return [alert for source in existing(sources) for alert in source(user, most)]


def visible_runs(user: User) -> QuerySet[Run]:
    """Select the runs of which the user can see all sites, because the title of a run names all of its sites."""
    return runs_visible(user)


def visible_deployments(user: User) -> QuerySet[Deployment]:
    return deployments_visible(user)


@found_in(lambda hour: Host.objects.filter(status__in=_LOST))
def _hosts(user: User, most: int) -> list[Alert]:
    expected = {"is_paused": True, "status": HostStatus.UNREACHABLE}  # maintenance
    lost = hosts_visible(user).filter(status__in=_LOST).exclude(**expected)
    return _of_hosts(lost.order_by("-status", "name"), most)


@found_in(lambda hour: Host.objects.filter(status=HostStatus.NEW))
def _new_hosts(user: User, most: int) -> list[Alert]:
    return _of_hosts(hosts_visible(user).filter(status=HostStatus.NEW).order_by("name"), most)


def _of_hosts(rows: QuerySet[Host], most: int) -> list[Alert]:
    return [
        Alert(
            row.status,
            row.get_status_display(),
            "host",
            row.name,
            row.status_detail.strip().split("\n")[0] or _HOST_ADVICE.get(row.status, ""),
            address("hosts:detail", row.name),
            row.last_seen_at,
        )
        for row in rows.only("name", "status", "status_detail", "last_seen_at")[:most]
    ]


@found_in(lambda hour: Host.objects.filter(status=HostStatus.READY, last_seen_at__lt=Now() - STALE_AFTER))
def _unobserved(user: User, most: int) -> list[Alert]:
    """Return alerts for hosts that nobody checked recently, for example because no worker runs."""
    rows = hosts_visible(user).filter(status=HostStatus.READY, is_paused=False).exclude(observed())
    words = _("Paddock has not checked this host for some minutes. Open the self-check to see whether a worker runs")
    return [
        Alert("unsure", _("Not observed"), "host", name, words, address("hosts:detail", name), seen)
        for name, seen in rows.order_by("name").values_list("name", "last_seen_at")[:most]
    ]


@found_in(lambda hour: Allowance.objects.filter(needs_review=True))
def _services(user: User, most: int) -> list[Alert]:
    """Return alerts, only for administrators, about hosts on which several teams share one allowance for a service."""
    if not may(user, Action.ADMINISTER):
        return []
    rows = Allowance.objects.filter(needs_review=True).order_by("host__name").values_list("host__name", flat=True)
    words = _(
        "Several teams use the same local service. Under Local services, replace the shared entry with one entry for "
        "each team that should use the service"
    )
    return [
        Alert("review", _("To review"), "host", name, words, address("hosts:local_services", name))
        for name in list(rows.distinct())[:most]
    ]


@found_in(lambda hour: WebServer.objects.filter(is_running=False))
def _stopped(user: User, most: int) -> list[Alert]:
    """Return alerts for stopped web servers with live sites of the user.
    Unreachable hosts are left out, because the state of their web servers is unknown.
    """
    rows = SiteState.objects.filter(
        status__in=DEPLOYED,
        revision__web_server__is_running=False,
        revision__web_server__host__status=HostStatus.READY,
        revision__web_server__host__is_paused=False,
    )
    sites = visible(rows, user, team_path="site__team").order_by().values_list("revision__web_server")
    counted = dict(sites.annotate(Count("pk", distinct=True)))
    web_servers = WebServer.objects.filter(pk__in=counted).select_related("host").order_by("host__name", "pk")
    return [
        Alert(
            "stopped",
            _("Stopped"),
            "server",
            str(row),
            ngettext(
                "%d live site uses this stopped web server",
                "%d live sites use this stopped web server",
                counted[row.pk],
            )
            % counted[row.pk],
            address("hosts:detail", row.host.name),
        )
        for row in web_servers[:most]
    ]


@found_in(lambda hour: SiteState.objects.filter(_FAILS))
def _failing(user: User, most: int) -> list[Alert]:
    """Return alerts for deployed sites whose health page fails, except on stopped web servers and unreachable hosts."""
    rows = states_on_running_servers().filter(_FAILS)
    found = visible(rows, user, team_path="site__team").select_related("site").order_by(unindexed("site__name"))
    columns = ("health", "health_words", "health_since", "reach_words", "reach_since", "site__name")
    return [
        Alert(
            "failing",
            _("Failing") if state.health == Health.FAILING else _("Not reachable from the panel"),
            "site",
            state.site.name,
            state.health_words if state.health == Health.FAILING else state.reach_words,
            address("websites:detail", state.site.name),
            state.health_since if state.health == Health.FAILING else state.reach_since,
        )
        for state in found.only(*columns)[:most]
    ]


@found_in(lambda hour: Host.objects.filter(is_paused=True))
def _paused(user: User, most: int) -> list[Alert]:
    well = (HostStatus.READY, HostStatus.UNREACHABLE)
    names = hosts_visible(user).filter(status__in=well, is_paused=True).order_by("name").values_list("name", flat=True)
    words = _("No deployments or benchmarks start on this host until somebody resumes the host")
    return [Alert("paused", _("Paused"), "host", name, words, address("hosts:detail", name)) for name in names[:most]]


@found_in(lambda hour: SiteState.objects.filter(last_failure__isnull=False))
def _failures(user: User, most: int) -> list[Alert]:
    states = visible(SiteState.objects.filter(last_failure__isnull=False), user, team_path="site__team")
    columns = [f"last_failure__{name}" for name in ("uuid", "status", "error", "finished_at")]
    states = states.select_related("site", "last_failure").only("site__name", *columns)
    rows = list(states.order_by("-last_failure__created_at")[:most])
    shared = shared_with_others(user, [row.last_failure_id for row in rows if row.last_failure_id])
    found = []
    for row in rows:
        failure = row.last_failure
        assert failure is not None
        label, detail = failure.get_status_display(), _first_line(failure.error)
        if failure.pk in shared:  # the server's output may be about another team's site
            detail = ""
        url = address("deployments:detail", failure.uuid)
        found.append(Alert(failure.status, label, "site", row.site.name, detail, url, failure.finished_at))
    return found


def _first_line(error: str) -> str:
    """Return the first line of an error, without the time and process ID that nginx and gallop log."""
    return _LOGGED.sub("", error.strip().split("\n")[0])


@found_in(lambda hour: NameWatch.objects.filter(gone_since__isnull=False))
def _names(user: User, most: int) -> list[Alert]:
    """Return alerts for live sites with domain names that no longer point to the host of the site.
    Visitors and certificate renewals do not reach the site by these names.
    """
    rows = visible(NameWatch.objects.filter(gone_since__isnull=False), user, team_path="site__team")
    rows = rows.filter(site__state__status__in=DEPLOYED)
    return [
        Alert(
            "missed",
            _("Domain name points elsewhere"),
            "site",
            row.site.name,
            " ".join(row.gone.values()),
            address("websites:detail", row.site.name),
            row.gone_since,
        )
        for row in rows.select_related("site").only("gone", "gone_since", "site__name").order_by("gone_since")[:most]
    ]


@found_in(lambda hour: Drift.objects.filter(resolution=DriftResolution.OPEN))
def _drifts(user: User, most: int) -> list[Alert]:
    rows = visible(Drift.objects.filter(resolution=DriftResolution.OPEN), user, team_path="site__team")
    sites = rows.filter(site__isnull=False).order_by("site__name").values_list("site__name").annotate(Count("pk"))
    return [
        Alert(
            "drifted",
            _("Drift"),
            "site",
            name,
            ngettext("%d file was edited on the host", "%d files were edited on the host", files) % files,
            address("websites:detail", name),
        )
        for name, files in sites[:most]
    ]


@found_in(lambda hour: Report.objects.filter(created_at__gt=hour.begins - RECENT, outcome__in=NOTEWORTHY))
def _reports(user: User, most: int) -> list[Alert]:
    return [
        Alert(
            row.outcome,
            row.get_outcome_display(),
            "report",
            row.title,
            row.headline.split("\n")[0],
            address("reports:detail", row.uuid),
            row.created_at,
        )
        for row in alarming(user, timezone.now() - RECENT)[:most]
    ]


_ROLLOUT_LABELS: dict[str, Text] = {
    RolloutStatus.WAITING: gettext_lazy("Waiting for approval"),
    RolloutStatus.PAUSED: gettext_lazy("Paused"),
    RolloutStatus.UNDONE: gettext_lazy("Undone"),
    RolloutStatus.FAILED: gettext_lazy("Not completely undone"),
}


@found_in(lambda hour: Rollout.objects.filter(status__in=_ROLLOUT_LABELS))
def _rollouts(user: User, most: int) -> list[Alert]:
    """Return alerts for rollouts that wait for a user, or that were undone within RECENT because a wave failed."""
    since = timezone.now() - RECENT
    rows = rollouts_visible(user).filter(
        Q(status__in=(RolloutStatus.WAITING, RolloutStatus.PAUSED))
        | Q(status__in=(RolloutStatus.UNDONE, RolloutStatus.FAILED), finished_at__gte=since) & ~Q(error="")
    )
    return [
        Alert(
            row.status,
            _ROLLOUT_LABELS[row.status],
            "rollout",
            str(row),
            (row.error or row.progress).split("\n")[0],
            address("rollouts:detail", row.uuid),
            row.finished_at or row.updated_at,
        )
        for row in rows.order_by("-created_at")[:most]
    ]


@found_in(lambda hour: Run.objects.filter(status__in=_BAD_RUNS, created_at__gt=hour.begins - RECENT))
def _runs(user: User, most: int) -> list[Alert]:
    bad = visible_runs(user).filter(status__in=_BAD_RUNS, created_at__gt=timezone.now() - RECENT)
    columns = ("uuid", "status", "title", "error", "reasons", "finished_at")
    return [
        Alert(
            row.status,
            row.get_status_display(),
            "run",
            row.title,
            _first_line(row.error) or " ".join(str(reason) for reason in row.reasons),
            address("benchmarks:detail", row.uuid),
            row.finished_at,
        )
        for row in bad.select_related(None).only(*columns)[:most]
    ]


@found_in(lambda hour: Deployment.objects.filter(_WAITS, created_at__gt=hour.begins - RECENT))
def _planned(user: User, most: int) -> list[Alert]:
    rows = visible_deployments(user).filter(_WAITS, created_at__gt=timezone.now() - RECENT)
    columns = ("uuid", "status", "created_at", "host__name")
    return [
        Alert(
            row.status,
            row.get_status_display(),
            "host",
            row.host.name,
            _("A plan is waiting for confirmation"),
            address("deployments:detail", row.uuid),
            row.created_at,
        )
        for row in rows.select_related(None).select_related("host").defer(None).only(*columns)[:most]
    ]


def _pending(user: User, most: int, *, are_many: bool) -> list[Alert]:
    changed = visible(Site.objects.all(), user).filter(IS_PENDING, enabled=True)
    newest = F("updated_at") if are_many else unindexed("updated_at")
    return [
        Alert(
            "pending",
            _("Draft changes"),
            "site",
            name,
            _("The draft changed after the last deployment; plan a deployment to apply the changes"),
            address("websites:detail", name),
            updated_at,
        )
        for name, updated_at in changed.order_by(newest.desc()).values_list("name", "updated_at")[:most]
    ]


def alert_mail_of(user: User) -> AlertMail | None:
    """Return the state of the alert mails to `user`; None before the first attempt."""
    return AlertMail.objects.filter(user=user).first()
