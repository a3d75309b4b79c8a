"""Selectors: scenarios and runs that a user can see, and the data of benchmark pages and exports."""

from __future__ import annotations

from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet
from django.db.models.fields.json import KT

from panel.accounts.models import User
from panel.accounts.permissions import Action, in_scope, team_keys, visible
from panel.benchmarks.models import Round, Run, RunStatus, RunTarget, Scenario, SuiteRun
from panel.benchmarks.records import HistoryPoint, TargetSummary
from panel.benchmarks.runs.measured import Measured, measured_from
from panel.benchmarks.tools.arguments import clean
from panel.deployments.models import SiteStatus
from panel.hosts.models import Host
from panel.hosts.selectors import hosts_visible
from panel.websites.models import Site

HISTORY_RUNS = 200


def scenarios_visible(user: User) -> QuerySet[Scenario]:
    """Return the scenarios of the user's teams and scenarios without a team; all scenarios for administrators."""
    rows = Scenario.objects.select_related("team")
    if user.is_admin or not user.is_active:
        return visible(rows, user)
    return rows.filter(Q(team=None) | Q(team__in=team_keys(user)))


def runs_visible(user: User) -> QuerySet[Run]:
    """Return the runs whose sites the user can all see, and runs of suites that the user can see. Runs with only
    deleted sites are visible only to administrators.
    """
    rows = Run.objects.select_related("scenario", "requested_by")
    if user.is_admin or not user.is_active:
        return visible(rows, user)
    teams = team_keys(user)
    targets = RunTarget.objects.filter(run=OuterRef("pk"))
    foreign = targets.filter(site__isnull=False).exclude(site__team__in=teams)
    own = Exists(targets.filter(site__team__in=teams)) | Q(suite_run__in=suites_visible(user).values("pk"))
    return rows.filter(own, ~Exists(foreign))


def suites_visible(user: User) -> QuerySet[SuiteRun]:
    """Return the suite runs that the user can see. Both the host of the web servers and the host of the load generator
    must be visible to the user. Suite runs on deleted hosts are visible to the user who started them and to
    administrators.
    """
    rows = SuiteRun.objects.select_related("host", "requested_by")
    if not user.is_active or not in_scope(user, Action.VIEW):
        return rows.none()
    if user.is_admin:
        return rows
    part = Q(pk=OuterRef("host")) | Q(name=OuterRef("load_from"))
    hidden = Host.objects.exclude(pk__in=hosts_visible(user).values("pk")).filter(part)
    kept = Q(host__isnull=False) | Q(requested_by=user)
    return rows.alias(load_from=KT("chosen__load_from")).filter(kept, ~Exists(hidden))


def with_runs(rows: QuerySet[SuiteRun]) -> QuerySet[SuiteRun]:
    return rows.prefetch_related(Prefetch("runs", queryset=Run.objects.defer("fingerprint")))


def with_targets(rows: QuerySet[Run]) -> QuerySet[Run]:
    targets = RunTarget.objects.select_related("site", "revision", "web_server__host")
    return rows.prefetch_related(Prefetch("targets", queryset=targets))


def sites_measurable(user: User) -> QuerySet[Site]:
    """Return the deployed sites that the user can see; only deployed sites can be measured."""
    rows = Site.objects.filter(state__revision__isnull=False).exclude(state__status=SiteStatus.DISABLED)
    return visible(rows.select_related("web_server__host", "team"), user)


def rounds_of(run: Run) -> QuerySet[Round]:
    return Round.objects.filter(target__run=run).select_related("target").order_by("number", "target__position")


def rounds_brief(run: Run) -> QuerySet[Round]:
    """Return the rounds of a run without loading their output and samples, which can be large."""
    return rounds_of(run).defer("output", "samples")


def measured_of(row: Round) -> Measured:
    """Convert a stored round to a Measured, which is plain data."""
    target = row.target
    return measured_from(
        row.metrics, row.samples, target=target.position, label=target.label, number=row.number, error=row.error
    )


def measured_rounds(run: Run) -> list[Measured]:
    """Return the rounds of a run, without warm-ups, as Measured, which is plain data."""
    return [measured_of(row) for row in rounds_of(run).filter(number__gt=0).defer("output")]


def progress_of(run: Run) -> tuple[int, int]:
    """Return the number of finished rounds of a run and the number of all its rounds; both include warm-ups."""
    targets = run.targets.aggregate(
        done=Count("rounds", filter=Q(rounds__finished_at__isnull=False)), all=Count("pk", distinct=True)
    )
    each = run.parameters["rounds"] + (1 if run.parameters["warmup_s"] else 0)
    return targets["done"], targets["all"] * each


def history_points(user: User, scenario: Scenario, figure: str) -> list[HistoryPoint]:
    """Return the values of one figure in all valid runs with the scenario's current load, oldest first.
    At most HISTORY_RUNS runs are read.
    """
    runs = (
        runs_visible(user).filter(scenario=scenario, status=RunStatus.FINISHED).order_by("-finished_at")[:HISTORY_RUNS]
    )
    return [point for run in reversed(runs) if _is_same_load(run, scenario) for point in points_of(run, figure)]


def points_of(run: Run, figure: str) -> list[HistoryPoint]:
    """Return the values of one figure in an ended run, one for each target that has the figure."""
    assert run.finished_at is not None
    at = run.finished_at.isoformat(timespec="seconds")
    targets: list[TargetSummary] = run.summary.get("targets", [])
    known = [(target["label"], found) for target in targets if (found := target["figures"].get(figure))]
    return [
        {
            "at": at,
            "label": label,
            "title": run.title,
            "value": found["value"],
            "low": found["low"],
            "high": found["high"],
        }
        for label, found in known
    ]


def _is_same_load(run: Run, scenario: Scenario) -> bool:
    """Return whether the run had the scenario's current load. Runs with another load are not comparable."""
    known = (scenario.arguments, clean(scenario.tool, scenario.arguments))
    same = run.parameters["tool"] == scenario.tool and run.parameters["paths"] == scenario.paths
    return same and run.parameters["arguments"] in known
