"""Runs and suite runs as kinds of jobs: the data that the pages and the API of all jobs need (core/jobs.py)."""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.benchmarks.models import Run, RunStatus, SuiteRun
from panel.benchmarks.runs import results
from panel.benchmarks.runs.services import run_cancel
from panel.benchmarks.selectors import progress_of, runs_visible, suites_visible
from panel.benchmarks.suites import results as suite_results
from panel.benchmarks.suites.services import may_steer, suite_cancel
from panel.core.jobs import JobKind, JobShown


def _find_run(user: User, uuid: UUID) -> Run | None:
    return runs_visible(user).filter(uuid=uuid).first()


def _run_mark(run: Run) -> tuple[object, ...]:
    return (run.status, run.progress, run.row_version, run.cancel_requested)


def _run_shown(run: Run) -> JobShown:
    done, total = progress_of(run) if run.status == RunStatus.RUNNING else (0, 0)
    is_stoppable = not run.is_ended and not run.cancel_requested
    return JobShown(
        uuid=run.uuid,
        title=run.title,
        status=run.status,
        status_words=run.get_status_display(),
        words=_("Paddock is cancelling the run.") if run.cancel_requested else run.progress,
        is_live=not run.is_ended,
        owner=str(run.requested_by or ""),
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        done=done,
        total=total,
        progress_label=_("Finished rounds, including warm-up"),
        cancel_url=reverse("benchmarks:cancel", args=[run.uuid]) if is_stoppable else "",
        cancel_label=_("Cancel the run"),
    )


def _may_cancel_run(user: User, run: Run) -> bool:
    sites = [target.site for target in run.targets.select_related("site__team") if target.site is not None]
    return all(may(user, Action.BENCHMARK, site.team) for site in sites)


RUN = JobKind(
    name="run",
    find=_find_run,
    load=lambda uuid: Run.objects.filter(uuid=uuid).first(),
    mark=_run_mark,
    is_live=lambda row: not row.is_ended,
    shown=_run_shown,
    cancel=lambda actor, row: run_cancel(actor=actor, run=row),
    may_cancel=_may_cancel_run,
    region=lambda row: "benchmarks/live.html",
    context=lambda row: {"run": row, **results.course(row)},
    page=lambda row: reverse("benchmarks:detail", args=[row.uuid]),
)


def _find_suite(user: User, uuid: UUID) -> SuiteRun | None:
    return suites_visible(user).filter(uuid=uuid).first()


def _suite_mark(row: SuiteRun) -> object:
    last = row.runs.order_by("-case").first()
    return (row.status, row.position, *(_run_mark(last) if last else ()))


def _suite_words(current: Run | None) -> str:
    if current is None:
        return _("Waiting for a free worker")
    return f"{current.title}: {_('cancelling') if current.cancel_requested else current.progress}"


def _suite_shown(row: SuiteRun) -> JobShown:
    course = suite_results.course(row)
    return JobShown(
        uuid=row.uuid,
        title=row.title,
        status=row.status,
        status_words=row.get_status_display(),
        words="" if row.is_ended else _suite_words(course["current"]),
        is_live=not row.is_ended,
        owner=str(row.requested_by or ""),
        created_at=row.created_at,
        started_at=row.created_at,
        finished_at=row.finished_at,
        done=course["done"],
        total=course["total"],
        progress_label=_("Finished cases"),
        cancel_url="" if row.is_ended else reverse("benchmarks:suite-cancel", args=[row.uuid]),
        cancel_label=_("Cancel the suite"),
    )


SUITE = JobKind(
    name="suite",
    find=_find_suite,
    load=lambda uuid: SuiteRun.objects.filter(uuid=uuid).first(),
    mark=_suite_mark,
    is_live=lambda row: not row.is_ended,
    shown=_suite_shown,
    cancel=lambda actor, row: suite_cancel(actor=actor, row=row),
    may_cancel=may_steer,
    region=lambda row: "benchmarks/suite_live.html",
    context=lambda row: {"row": row, **suite_results.course(row)},
    page=lambda row: reverse("benchmarks:suite", args=[row.uuid]),
)
