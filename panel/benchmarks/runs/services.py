"""Services that change scenarios and runs. All arguments are keyword-only; `actor` is the requesting user.
Each service checks the permission (PermissionDenied) and the values (ValidationError keyed by field), and writes an
audit row in the same transaction. execution.py executes the runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Literal

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require, require_each
from panel.audit.services import audit_record, snapshot
from panel.benchmarks.models import Run, RunStatus, RunTarget, Scenario
from panel.benchmarks.records import Parameters
from panel.benchmarks.runs import targets
from panel.benchmarks.scenarios.frozen import parameters_of
from panel.benchmarks.scenarios.ready_made import Quick
from panel.benchmarks.selectors import scenarios_visible
from panel.core.errors import ApplicationError, Conflict
from panel.core.messages import Task, task_send
from panel.deployments.models import Revision
from panel.hosts.services import refuse_paused
from panel.websites.models import Site

MAX_SITES = 8
MOST_STEPS = 8
SCENARIO_FIELDS = (
    *("name", "team", "tool", "arguments", "paths", "rounds", "warmup_s", "timeout_s", "allowed_error_percent"),
)


def _assign(scenario: Scenario, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name not in SCENARIO_FIELDS:
            known = ", ".join(SCENARIO_FIELDS)
            raise ApplicationError(
                f"Unknown field “{name}” of a scenario. Known fields: {known}.", field=name, code="unknown"
            )
        setattr(scenario, name, value)


@transaction.atomic
def scenario_create(*, actor: User, **values: Any) -> Scenario:
    team: Team | None = values.get("team")
    require(actor, Action.BENCHMARK, team)
    scenario = Scenario()
    _assign(scenario, values)
    scenario.full_clean()
    scenario.save()
    audit_record(actor=actor, action="scenario.create", target=scenario, after=snapshot(scenario))
    return scenario


@transaction.atomic
def quick_create(*, actor: User, quick: Quick) -> Scenario:
    """Create a scenario from the predefined scenario `quick`, or return an existing one that the actor can see.

    Names are unique among all teams: if only a scenario that the actor cannot see has the name, a number is appended.
    """
    require(actor, Action.BENCHMARK)
    existing = scenarios_visible(actor).filter(name=quick.name).first()
    if existing is not None:
        return existing
    taken = set(Scenario.objects.filter(name__startswith=quick.name).values_list("name", flat=True))
    names = (quick.name, *(f"{quick.name} ({number})" for number in range(2, len(taken) + 3)))
    name = next(name for name in names if name not in taken)
    return scenario_create(actor=actor, **{**quick.values(), "name": name})


@transaction.atomic
def scenario_update(*, actor: User, scenario: Scenario, expected_version: int | None = None, **values: Any) -> Scenario:
    """Update a scenario; Conflict if its version is not `expected_version`. Earlier runs keep their copy of the
    scenario.
    """
    require(actor, Action.BENCHMARK, scenario.team)
    if values.get("team"):
        require(actor, Action.BENCHMARK, values["team"])
    stored = Scenario.objects.select_for_update().get(pk=scenario.pk)
    if expected_version is not None and stored.row_version != expected_version:
        raise Conflict(
            f"The scenario {stored.name} was changed by another user since you opened it. Reload the scenario first."
        )
    before = snapshot(stored)
    _assign(stored, values)
    stored.row_version += 1
    stored.full_clean()
    stored.save()
    audit_record(actor=actor, action="scenario.update", target=stored, before=before, after=snapshot(stored))
    return stored


@transaction.atomic
def scenario_delete(*, actor: User, scenario: Scenario) -> None:
    """Delete a scenario. Its runs keep their copy of the scenario."""
    require(actor, Action.BENCHMARK, scenario.team)
    audit_record(actor=actor, action="scenario.delete", target=scenario, before=snapshot(scenario))
    scenario.delete()


@transaction.atomic
def run_create(*, actor: User, scenario: Scenario, sites: Sequence[Site], title: str = "") -> Run:
    """Create a run with a copy of `scenario` and the deployed revisions of `sites`, and queue the run. The first site
    is the baseline of ratios.
    """
    require(actor, Action.BENCHMARK, scenario.team)
    scenario.full_clean()
    return _run_store(actor=actor, scenario=scenario, parameters=parameters_of(scenario), sites=sites, title=title)


@transaction.atomic
def runs_create(
    *, actor: User, scenario: Scenario, sites: Sequence[Site], concurrencies: Sequence[int], title: str = ""
) -> list[Run]:
    """Queue one run for each number of concurrent connections, to show throughput by concurrency. Without numbers,
    queue one run with the scenario's own concurrency.

    The runs are otherwise identical and are queued one after the other.
    """
    if not concurrencies:
        return [run_create(actor=actor, scenario=scenario, sites=sites, title=title)]
    require(actor, Action.BENCHMARK, scenario.team)
    chosen = list(dict.fromkeys(concurrencies))
    if not 2 <= len(chosen) <= MOST_STEPS:
        raise ApplicationError(f"Enter 2 to {MOST_STEPS} different numbers.", field="concurrencies")
    name = " ".join(title.split()) or f"{scenario.name}: {', '.join(site.name for site in sites)}"
    runs = []
    for concurrency in chosen:
        step = copy(scenario)
        step.arguments = {**scenario.arguments, "concurrency": concurrency}
        try:
            step.full_clean(validate_unique=False)
        except ValidationError as error:
            words = " ".join(text.removeprefix("concurrency: ") for text in error.messages)
            raise ApplicationError(f"With concurrency {concurrency}: {words}", field="concurrencies") from error
        titled = f"{name[:180]}, concurrency {concurrency}"
        runs.append(
            _run_store(actor=actor, scenario=scenario, parameters=parameters_of(step), sites=sites, title=titled)
        )
    return runs


@transaction.atomic
def run_create_once(*, actor: User, scenario: Scenario, sites: Sequence[Site], title: str = "") -> Run:
    """Queue a run with the load of `scenario`, which is not saved, because the load is used only once."""
    require(actor, Action.BENCHMARK, scenario.team)
    scenario.full_clean(validate_unique=False)
    return _run_store(actor=actor, scenario=None, parameters=parameters_of(scenario), sites=sites, title=title)


def repeated_as(run: Run) -> Literal["run", "suite", "comparison"]:
    """Return the kind of job to start again in order to repeat `run`: "run", "suite", or "comparison".
    A case of a suite is repeated with its suite. A run of a server comparison is repeated with the comparison, because
    the measured copies of the site no longer exist.
    """
    if run.suite_run_id is not None:
        return "suite"
    sites = [target.site_id for target in run.targets.all()]
    return "comparison" if len(set(sites) - {None}) < len(sites) - sites.count(None) else "run"


@transaction.atomic
def run_repeat(*, actor: User, run: Run) -> Run:
    """Start a run with the same parameters and sites, as they are deployed now. Runs of a suite or of a server
    comparison are rejected.
    """
    what = repeated_as(run)
    if what == "suite":
        raise Conflict("This run is part of a suite. Start the suite again to keep its cases comparable.")
    rows = list(run.targets.select_related("site"))
    sites = [target.site for target in rows if target.site is not None]
    if len(sites) < len(rows):
        raise ApplicationError("A site of this run no longer exists. Start a new run with other sites.", field="sites")
    if what == "comparison":
        raise ApplicationError(
            f"This run measured copies of {sites[0].name}, which were removed. Repeat the server "
            "comparison on the site's page.",
            field="sites",
        )
    return _run_store(actor=actor, scenario=run.scenario, parameters=run.parameters, sites=sites, title=run.title)


def _run_store(
    *, actor: User, scenario: Scenario | None, parameters: Parameters, sites: Sequence[Site], title: str
) -> Run:
    _check_sites(actor, sites)
    revisions = [targets.live_revision(site) for site in sites]
    refuse_paused(revision.web_server.host for revision in revisions)
    endpoints = [targets.endpoint(revision, parameters["arguments"]) for revision in revisions]
    names = ", ".join(site.name for site in sites)
    run = Run(
        scenario=scenario,
        title=(" ".join(title.split()) or f"{parameters['name']}: {names}")[:200],
        parameters=parameters,
        requested_by=actor,
        progress="Waiting for a free worker",
    )
    run.save()
    for position, (site, revision, found) in enumerate(zip(sites, revisions, endpoints, strict=True)):
        RunTarget.objects.create(
            run=run,
            position=position,
            site=site,
            web_server=revision.web_server,
            revision=revision,
            label=_label(site, revision),
            base_url=found.base_url,
            engine=revision.web_server.engine,
        )
    audit_record(actor=actor, action="run.create", target=run, after={"title": run.title, "parameters": parameters})
    transaction.on_commit(lambda: run_wake(run))
    return run


def run_wake(run: Run) -> None:
    """Wake a worker for the run by a Celery message. If the message is lost, the periodic task `sweep` repeats it."""
    task_send(Task.BENCHMARK_RUN, str(run.uuid))


def _label(site: Site, revision: Revision) -> str:
    return f"{site.name} ({revision.web_server.get_engine_display()}, {revision.web_server.host.name})"[:200]


def _check_sites(actor: User, sites: Sequence[Site]) -> None:
    if not sites:
        raise ApplicationError("Choose at least one site to benchmark.", field="sites")
    if len(sites) > MAX_SITES:
        raise ApplicationError(f"Select at most {MAX_SITES} sites per run; you selected {len(sites)}.", field="sites")
    if len({site.pk for site in sites}) != len(sites):
        raise ApplicationError("Each site can appear only once in a run.", field="sites")
    require_each(actor, Action.BENCHMARK, (site.team for site in sites))


def require_run(actor: User, run: Run, action: Action) -> None:
    """Raise PermissionDenied unless `actor` may perform `action` on the run's scenario and on every site of the run."""
    targets = run.targets.select_related("site__team")
    teams = [target.site.team for target in targets if target.site is not None]
    require_each(actor, action, [run.scenario.team if run.scenario else None, *teams])


@transaction.atomic
def run_cancel(*, actor: User, run: Run) -> Run:
    """Cancel a run. A queued run ends immediately; the worker of a running run is asked to stop the load tool. Conflict
    if the run has ended.
    """
    require_run(actor, run, Action.BENCHMARK)
    now = timezone.now()
    rows = Run.objects.filter(pk=run.pk)
    ended = rows.filter(status=RunStatus.QUEUED).update(
        status=RunStatus.CANCELLED,
        cancel_requested=True,
        finished_at=now,
        progress="",
        row_version=F("row_version") + 1,
    )
    if not ended and not rows.filter(status=RunStatus.RUNNING).update(cancel_requested=True):
        raise Conflict(f"The run {run.title} has already ended and cannot be cancelled.")
    run.refresh_from_db()
    audit_record(actor=actor, action="run.cancel", target=run)
    return run


@transaction.atomic
def run_expire(run: Run, words: str) -> bool:
    """Cancel a queued run that no worker started in time; return whether the run was still queued. `words` is the
    reason, which is stored as the run's error.
    """
    ended = Run.objects.filter(pk=run.pk, status=RunStatus.QUEUED).update(
        status=RunStatus.CANCELLED,
        error=words,
        finished_at=timezone.now(),
        progress="",
        row_version=F("row_version") + 1,
    )
    if ended:
        audit_record(actor=None, action="run.expire", target=run, after={"reason": words})
    return bool(ended)


@transaction.atomic
def run_delete(*, actor: User, run: Run) -> None:
    """Delete a run with its rounds and the output of the load tool; Conflict if the run has not ended."""
    require_run(actor, run, Action.BENCHMARK)
    if run.status in (RunStatus.QUEUED, RunStatus.RUNNING):
        raise Conflict(f"The run {run.title} is in progress. Cancel the run first, then delete it.")
    audit_record(actor=actor, action="run.delete", target=run, before={"title": run.title, "summary": run.summary})
    run.delete()
