"""Services that change suite runs.
The cases of a suite become runs one after the other. Each run is queued when the previous one has ended, so no worker
waits for a host that the suite itself uses.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, require
from panel.audit.services import audit_record
from panel.benchmarks.models import ENDED, Run, RunStatus, RunTarget, SuiteRun, SuiteStatus
from panel.benchmarks.runs import services
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.availability import available_setups
from panel.benchmarks.suites.choosing import Choice
from panel.benchmarks.suites.definitions import PRESETS, Application, Case, Setup, Suite, stored_case
from panel.benchmarks.tools.arguments import clean, clean_paths
from panel.core.errors import ApplicationError, Conflict
from panel.hosts import preparing
from panel.hosts.models import Connection, Host, HostStatus, WebServer
from panel.hosts.selectors import hosts_visible
from panel.hosts.services import refuse_paused


@transaction.atomic
def suite_start(
    *, actor: User, suite: str, preset: str, host: Host, setups: Sequence[str] = (), choice: Choice | None = None
) -> SuiteRun:
    """Store a copy of the suite, or of its chosen part, for the web servers of `host`, and queue its first case.

    No `setups` means all configurations. NotPrepared if the host lacks the chosen application.
    """
    require(actor, Action.BENCHMARK)
    if suite not in SUITES:
        raise ApplicationError(f"Unknown suite “{suite}”. Known suites: {', '.join(SUITES)}.", field="suite")
    if preset not in PRESETS:
        raise ApplicationError(f"Unknown preset “{preset}”. Known presets: {', '.join(PRESETS)}.", field="preset")
    if host.connection != Connection.LOCAL and host.status != HostStatus.READY:
        state = host.get_status_display().lower()
        raise ApplicationError(f"{host.name}: {state}. Check the host first.", field="host")
    refuse_paused([host])
    _check_load_host(actor, host, choice)
    definition = SUITES[suite]
    choice = choice or Choice()
    taking = available_setups(definition, PRESETS[PRESETS.index(preset)], host, setups, choice)
    _check_prepared(definition, host, choice)
    row = SuiteRun(
        suite=suite,
        preset=preset,
        host=host,
        host_name=host.name,
        title=_title(definition, choice, host),
        plan=[case.stored() for case in taking.cases],
        setups=[_frozen(setup, web_server) for setup, web_server in taking.setups],
        left_out=taking.left_out,
        chosen=choice.stored(),
        requested_by=actor,
    )
    row.save()
    audit_record(actor=actor, action="suite.start", target=row, after={"suite": suite, "preset": preset, **row.chosen})
    transaction.on_commit(lambda: suite_advance(row))
    return row


def _title(definition: Suite, choice: Choice, host: Host) -> str:
    """Return the title of a suite run. The application is part of the title only if the user chose it or its paths."""
    named = choice.application or choice.paths
    parts = [definition.title, *([choice.application_words(definition)] if named else [])]
    parts += [f"over {choice.network.words}"] if choice.network else []
    parts += [f"load from {choice.load_from}"] if choice.load_from else []
    return f"{', '.join(parts)}{', a part,' if choice.is_part else ''} on {host.name}"[:200]


def _check_load_host(actor: User, host: Host, choice: Choice | None) -> None:
    """Check that the user can see the host chosen for the load generator, and that this host is ready, uses SSH, and is
    not `host`, which runs the web servers. ApplicationError otherwise.
    """
    if choice is None or not choice.load_from:
        return
    load = hosts_visible(actor).filter(name=choice.load_from).first()
    if load is None:
        raise ApplicationError(
            f"The host “{choice.load_from}” for the load generator does not exist.", field="load_from"
        )
    if load == host:
        words = (
            f"{host.name} runs the web servers. Choose another host for the load generator, or leave this field empty."
        )
        raise ApplicationError(words, field="load_from")
    for item in (host, load):
        if item.connection == Connection.LOCAL:
            words = f"{item.name} is the panel's own host and has no address for other hosts."
            raise ApplicationError(
                f"{words} Add this host over SSH to emulate a link between two hosts.", field="load_from"
            )
    if load.status != HostStatus.READY:
        state = load.get_status_display().lower()
        raise ApplicationError(f"{load.name}: {state}. Check the host first.", field="load_from")
    refuse_paused([load])


def _check_prepared(definition: Suite, host: Host, choice: Choice) -> None:
    application = definition.application(choice.application)
    if application is None or not application.ready_made:
        return
    if not preparing.version(host, application.ready_made):
        raise NotPrepared(host, application)


class NotPrepared(ApplicationError):
    """Raised if the host lacks packages of a predefined application. An administrator can install them from
    the panel.
    """

    def __init__(self, host: Host, application: Application) -> None:
        super().__init__(
            f"{host.name} is not prepared for {application.label}. An administrator can review and "
            f"install the packages under Suites, “Prepare {host.name}”. If the packages "
            f"are already installed, check the host.",
            field="application",
        )
        self.host, self.application = host, application


def _frozen(setup: Setup, web_server: WebServer) -> dict[str, object]:
    protocols = list(setup.protocols)
    return {"slug": setup.slug, "label": setup.label, "web_server": web_server.pk, "protocols": protocols}


def suite_repeat(*, actor: User, row: SuiteRun) -> SuiteRun:
    """Start a suite run again with the same preset, configurations and chosen part, as the suite is defined now."""
    require_suite(actor, row)
    if row.host is None:
        raise ApplicationError(f"The host of {row.title} no longer exists. Start the suite on another host.")
    slugs = [item["slug"] for item in row.setups]
    return suite_start(actor=actor, suite=row.suite, preset=row.preset, host=row.host, setups=slugs, choice=row.choice)


def suite_advance(row: SuiteRun) -> None:
    """Queue the next case of a suite run if the previous one has ended; end the suite run after the last case.
    Does nothing while a case is running, or if the suite run has ended.
    """
    with transaction.atomic():
        current = SuiteRun.objects.filter(pk=row.pk, status=SuiteStatus.RUNNING).first()
        if current is None or current.runs.exclude(status__in=ENDED).exists():
            return
        rows = SuiteRun.objects.filter(pk=row.pk, status=SuiteStatus.RUNNING, position=current.position)
        if current.position >= len(current.plan):
            rows.update(status=SuiteStatus.FINISHED, finished_at=timezone.now(), row_version=F("row_version") + 1)
            return
        # The worker that increments the position creates the run; another worker finds it changed.
        if rows.update(position=current.position + 1, row_version=F("row_version") + 1):
            _case_queue(current, current.position)


def _case_queue(row: SuiteRun, number: int) -> None:
    definition = SUITES[row.suite]
    case = stored_case(row.plan[number])
    load = Host.objects.filter(name=row.choice.load_from).first() if row.choice.load_from else None
    web_servers = {item["slug"]: item["web_server"] for item in row.setups}
    setups = [
        definition.setup(item["slug"])
        for item in row.setups
        if case.protocol in item.get("protocols", definition.setup(item["slug"]).protocols)
    ]
    run = Run(
        suite_run=row,
        case=number,
        title=f"{definition.title}: {case.title}"[:200],
        parameters=_parameters(definition, case, row.choice, load),
        requested_by=row.requested_by,
        progress="Waiting for a free worker",
    )
    run.save()
    if row.choice.load_from and load is None:
        _refused(run, f"{row.choice.load_from}, the host of the load generator, is no longer managed.")
        return
    for position, setup in enumerate(setups):
        web_server = WebServer.objects.filter(pk=web_servers[setup.slug]).first()
        if web_server is None:
            _refused(run, f"The web server of {setup.label} no longer exists. Start the suite again.")
            return
        RunTarget.objects.create(
            run=run,
            position=position,
            web_server=web_server,
            label=setup.label,
            base_url="",
            engine=web_server.engine,
            setup=setup.slug,
        )
    transaction.on_commit(lambda: services.run_wake(run))


def _refused(run: Run, words: str) -> None:
    Run.objects.filter(pk=run.pk).update(status="failed", error=words, progress="", finished_at=timezone.now())


def _parameters(definition: Suite, case: Case, choice: Choice, load: Host | None) -> dict[str, object]:
    testbed: dict[str, object] = {
        "suite": definition.slug,
        "case": case.stored(),
        "application": choice.application,
        "link": choice.link,
    }
    if load is not None:
        testbed["load_host"] = load.pk
    return {
        "name": case.title,
        "tool": case.tool.value,
        "arguments": clean(case.tool, case.arguments),
        "paths": clean_paths(case.tool, list(case.paths)),
        "rounds": case.rounds,
        "warmup_s": case.warmup_s,
        "timeout_s": case.timeout_s,
        "allowed_error_percent": case.allowed_error_percent,
        "idle_s": case.idle_s,
        "testbed": testbed,
    }


def may_steer(actor: User, row: SuiteRun) -> bool:
    """Return whether `actor` may cancel, repeat or delete the suite run: only its requester and administrators may."""
    return may(actor, Action.BENCHMARK) and (actor.is_admin or row.requested_by_id == actor.pk)


def require_suite(actor: User, row: SuiteRun) -> None:
    """Raise PermissionDenied unless `actor` may cancel, repeat or delete the suite run."""
    if not may_steer(actor, row):
        raise PermissionDenied(
            f"{row.title} was started by another user. Only that user and administrators "
            f"can cancel, repeat, or delete the suite run."
        )


@transaction.atomic
def suite_cancel(*, actor: User, row: SuiteRun) -> SuiteRun:
    """Cancel a suite run: cancel the current case, and start no further case. Conflict if the suite run has ended."""
    require_suite(actor, row)
    now = timezone.now()
    rows = SuiteRun.objects.filter(pk=row.pk, status=SuiteStatus.RUNNING)
    if not rows.update(status=SuiteStatus.CANCELLED, finished_at=now, row_version=F("row_version") + 1):
        raise Conflict(f"{row.title} has already ended and cannot be cancelled.")
    for run in row.runs.exclude(status__in=ENDED):
        services.run_cancel(actor=actor, run=run)
    audit_record(actor=actor, action="suite.cancel", target=row)
    row.refresh_from_db()
    return row


@transaction.atomic
def suite_expire(row: SuiteRun, words: str) -> bool:
    """Cancel a suite run whose first case no worker started in time; return whether the case was still waiting."""
    first = row.runs.filter(case=0, status=RunStatus.QUEUED).first()
    if first is None or row.runs.exclude(pk=first.pk).exists() or not services.run_expire(first, words):
        return False
    SuiteRun.objects.filter(pk=row.pk, status=SuiteStatus.RUNNING).update(
        status=SuiteStatus.CANCELLED, finished_at=timezone.now(), row_version=F("row_version") + 1
    )
    audit_record(actor=None, action="suite.expire", target=row, after={"reason": words})
    return True


@transaction.atomic
def suite_delete(*, actor: User, row: SuiteRun) -> None:
    """Delete a suite run with its runs, their rounds and their output; Conflict if the suite run has not ended."""
    require_suite(actor, row)
    if row.runs.exclude(status__in=ENDED).exists() or not row.is_ended:
        raise Conflict(f"{row.title} is in progress. Cancel the suite run first, then delete it.")
    audit_record(actor=actor, action="suite.delete", target=row, before={"title": row.title})
    row.delete()


def suites_advance() -> None:
    """Queue the next case of every running suite whose current case has ended, for example because a worker died
    between two cases. Called by the periodic task `sweep`.
    """
    for row in SuiteRun.objects.filter(status=SuiteStatus.RUNNING):
        suite_advance(row)
