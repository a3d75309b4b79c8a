"""Common format of all jobs: deployments, benchmark runs and suites, server comparisons, jobs on hosts.

A job is {uuid, type, title, status, is_finished, steps, log, result, error, times, links}. `status` is specific to its
type; `is_finished` is true for final states of every type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from panel.accounts.models import User
from panel.benchmarks.models import Run, RunStatus, SuiteRun
from panel.benchmarks.runs.services import run_cancel
from panel.benchmarks.selectors import runs_visible, suites_visible
from panel.benchmarks.suites.services import suite_cancel
from panel.comparisons import results as comparison_results
from panel.comparisons.models import Comparison
from panel.comparisons.selectors import comparisons_visible
from panel.comparisons.services import comparison_cancel
from panel.core.jobs import JobStatus
from panel.deployments import selectors as deployment_selectors
from panel.deployments.models import Deployment
from panel.deployments.planning.services import deployment_cancel
from panel.hosts.models import HostJob
from panel.hosts.selectors import host_jobs_visible
from panel.hosts.services import host_job_cancel

_RUN_DONE = {RunStatus.FINISHED, RunStatus.INVALID, RunStatus.FAILED, RunStatus.CANCELLED}
_OPERATION_DONE = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}
Step = dict[str, Any]


def _time(value: Any) -> str | None:
    return value.isoformat().replace("+00:00", "Z") if value else None


def _job(row: Deployment | Run | SuiteRun | Comparison | HostJob, kind: str, **values: Any) -> dict[str, Any]:
    own = {"deployment": "deployments", "host_job": "host-jobs"}.get(kind, f"{kind}s")
    return {
        "uuid": str(row.uuid),
        "type": kind,
        "title": str(row),
        "status": row.status,
        **values,
        "error": getattr(row, "error", ""),
        "created_at": _time(row.created_at),
        "started_at": _time(getattr(row, "started_at", row.created_at)),
        "finished_at": _time(row.finished_at),
        "links": {
            "self": f"/api/v1/jobs/{row.uuid}/",
            "events": f"/api/v1/jobs/{row.uuid}/events/",
            "detail": f"/api/v1/{own}/{row.uuid}/",
        },
    }


def _step(name: str, status: str, log: str, row: Any) -> Step:
    return {
        "name": name,
        "status": status,
        "log": log,
        "started_at": _time(row.started_at),
        "finished_at": _time(row.finished_at),
    }


def _of_deployment(row: Deployment) -> dict[str, Any]:
    steps = [_step(step.name, step.status, step.output, step) for step in row.steps.all()]
    result = {"outcome": row.status} if row.is_finished else None
    return _job(row, "deployment", is_finished=row.is_finished, steps=steps, log=_joined(steps), result=result)


def _joined(steps: list[Step]) -> str:
    return "".join(f"== {step['name']}: {step['status']}\n{step['log']}\n" for step in steps)


def _of_run(row: Run) -> dict[str, Any]:
    steps = []
    for target in row.targets.prefetch_related("rounds"):
        for part in target.rounds.all():
            status = "failed" if part.error else "succeeded" if part.finished_at else "running"
            steps.append(_step(f"{target.label}, round {part.number}", status, part.error, part))
    done = row.status in _RUN_DONE
    result = {"summary": row.summary, "reasons": row.reasons} if done else None
    return _job(row, "run", is_finished=done, steps=steps, log=row.progress, result=result)


def _of_comparison(row: Comparison) -> dict[str, Any]:
    steps = [
        {"name": str(step["label"]), "status": step["status"], "log": "", "started_at": None, "finished_at": None}
        for step in comparison_results.steps(row)
    ]
    result = {"run": str(row.run.uuid) if row.run else None, "advice": comparison_results.advice(row)}
    log = row.remains or (row.run.progress if row.run else "")
    return _job(
        row, "comparison", is_finished=row.is_finished, steps=steps, log=log, result=result if row.outcome else None
    )


def _of_suite(row: SuiteRun) -> dict[str, Any]:
    """Steps of a suite, one for each started case; errors belong to the cases."""
    runs = list(row.runs.order_by("case"))
    steps = [_step(run.title, run.status, run.error or run.progress, run) for run in runs]
    result = {"cases": {run.title: run.status for run in runs}} if row.is_ended else None
    return _job(row, "suite", is_finished=row.is_ended, steps=steps, log=_joined(steps), result=result)


def _of_host_job(row: HostJob) -> dict[str, Any]:
    done = row.status in _OPERATION_DONE
    step = _step(row.get_kind_display(), row.status, row.error, row)
    return _job(row, "host_job", is_finished=done, steps=[step], log=row.error, result=row.result)


def _find_deployment(user: User, uuid: UUID) -> Deployment | None:
    row = deployment_selectors.deployments_visible(user).filter(uuid=uuid).first()
    return row if row and deployment_selectors.is_whole_visible(user, row) else None


def _find_run(user: User, uuid: UUID) -> Run | None:
    return runs_visible(user).filter(uuid=uuid).first()


def _find_comparison(user: User, uuid: UUID) -> Comparison | None:
    return comparisons_visible(user).filter(uuid=uuid).first()


def _find_suite(user: User, uuid: UUID) -> SuiteRun | None:
    return suites_visible(user).filter(uuid=uuid).first()


def _find_host_job(user: User, uuid: UUID) -> HostJob | None:
    return host_jobs_visible(user).filter(uuid=uuid).first()


@dataclass(frozen=True)
class _Kind:
    find: Callable[[User, UUID], Any]
    describe: Callable[[Any], dict[str, Any]]
    cancel: Callable[[User, Any], object]


_KINDS = (
    _Kind(_find_deployment, _of_deployment, lambda actor, row: deployment_cancel(actor=actor, deployment=row)),
    _Kind(_find_run, _of_run, lambda actor, row: run_cancel(actor=actor, run=row)),
    _Kind(_find_comparison, _of_comparison, lambda actor, row: comparison_cancel(actor=actor, comparison=row)),
    _Kind(_find_suite, _of_suite, lambda actor, row: suite_cancel(actor=actor, row=row)),
    _Kind(_find_host_job, _of_host_job, lambda actor, row: host_job_cancel(actor=actor, job=row)),
)


def job_find(user: User, uuid: UUID) -> dict[str, Any] | None:
    """The job in its type's format; None if `user` has no access to one with that uuid."""
    for kind in _KINDS:
        row = kind.find(user, uuid)
        if row is not None:
            return kind.describe(row)
    return None


def job_cancel(actor: User, uuid: UUID) -> bool:
    """Cancel a job and return whether it exists; the service of its type decides whether this is possible."""
    for kind in _KINDS:
        row = kind.find(actor, uuid)
        if row is not None:
            kind.cancel(actor, row)
            return True
    return False
