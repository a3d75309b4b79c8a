"""Common format of all jobs: deployments, runs, suites, comparisons, host jobs, deliveries, orders, rollouts and
others.

A job is {uuid, type, title, status, is_finished, steps, log, result, error, times, links}. `status` is specific to its
type; `is_finished` is true for final states of every type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict
from uuid import UUID

from panel.accounts.models import User
from panel.benchmarks.models import Run, RunStatus, SuiteRun
from panel.certificates.models import Order
from panel.certificates.selectors import step_lines
from panel.comparisons import results as comparison_results
from panel.comparisons.models import Comparison
from panel.core.errors import Conflict
from panel.core.jobs import JobStatus, job_found
from panel.deployments.models import Deployment
from panel.hosts.models import HostJob
from panel.previews.models import Preview
from panel.publishing.models import Publication
from panel.reports.models import Delivery
from panel.rollouts.models import Rollout
from panel.rollouts.selectors import wave_lines

_RUN_DONE = {RunStatus.FINISHED, RunStatus.INVALID, RunStatus.FAILED, RunStatus.CANCELLED}
_OPERATION_DONE = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}

# First part of the URL of a job's own resource, where it is not the plural of the type; `jobs` if it has none.
_DETAIL = {"deployment": "deployments", "host_job": "host-jobs", "delivery": "jobs", "certificate_order": "jobs"}


class StepData(TypedDict):
    """One step of a job; times are ISO 8601 in UTC."""

    name: str
    status: str
    log: str
    started_at: str | None
    finished_at: str | None


class JobLinks(TypedDict):
    self: str
    events: str
    detail: str


class JobData(TypedDict):
    """A job in the API's format, which is the same for all types of jobs."""

    uuid: str
    type: str
    title: str
    status: str
    is_finished: bool
    steps: list[StepData]
    log: str
    result: Mapping[str, object] | None
    error: str
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    links: JobLinks


Row = Deployment | Run | SuiteRun | Comparison | HostJob | Delivery | Order | Rollout | Preview | Publication


def _time(value: Any) -> str | None:
    return value.isoformat().replace("+00:00", "Z") if value else None


def _job(
    row: Row, kind: str, *, steps: list[StepData], log: str, result: Mapping[str, object] | None, is_finished: bool
) -> JobData:
    own = _DETAIL.get(kind, f"{kind}s")
    return {
        "uuid": str(row.uuid),
        "type": kind,
        "title": str(row),
        "status": row.status,
        "is_finished": is_finished,
        "steps": steps,
        "log": log,
        "result": result,
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


def _step(name: str, status: str, log: str, row: Any) -> StepData:
    return {
        "name": name,
        "status": status,
        "log": log,
        "started_at": _time(row.started_at),
        "finished_at": _time(row.finished_at),
    }


def _of_deployment(row: Deployment) -> JobData:
    steps = [_step(step.name, step.status, step.output, step) for step in row.steps.all()]
    result = {"outcome": row.status} if row.is_finished else None
    return _job(row, "deployment", is_finished=row.is_finished, steps=steps, log=_joined(steps), result=result)


def _joined(steps: list[StepData]) -> str:
    return "".join(f"== {step['name']}: {step['status']}\n{step['log']}\n" for step in steps)


def _of_run(row: Run) -> JobData:
    steps = []
    for target in row.targets.prefetch_related("rounds"):
        for part in target.rounds.all():
            status = "failed" if part.error else "succeeded" if part.finished_at else "running"
            steps.append(_step(f"{target.label}, round {part.number}", status, part.error, part))
    done = row.status in _RUN_DONE
    result = {"summary": row.summary, "reasons": row.reasons} if done else None
    return _job(row, "run", is_finished=done, steps=steps, log=row.progress, result=result)


def _of_comparison(row: Comparison) -> JobData:
    steps: list[StepData] = [
        {"name": str(step["label"]), "status": step["status"], "log": "", "started_at": None, "finished_at": None}
        for step in comparison_results.steps(row)
    ]
    result = {"run": str(row.run.uuid) if row.run else None, "advice": comparison_results.advice(row)}
    log = row.remains or (row.run.progress if row.run else "")
    return _job(
        row, "comparison", is_finished=row.is_finished, steps=steps, log=log, result=result if row.outcome else None
    )


def _of_suite(row: SuiteRun) -> JobData:
    """Describe a suite, with one step for each case (a run of the suite) that has started.

    The steps contain the errors of the cases; a suite has no error of its own.
    """
    runs = list(row.runs.order_by("case"))
    steps = [_step(run.title, run.status, run.error or run.progress, run) for run in runs]
    result = {"cases": {run.title: run.status for run in runs}} if row.is_ended else None
    return _job(row, "suite", is_finished=row.is_ended, steps=steps, log=_joined(steps), result=result)


def _of_host_job(row: HostJob) -> JobData:
    done = row.status in _OPERATION_DONE
    step = _step(row.get_kind_display(), row.status, row.error, row)
    return _job(row, "host_job", is_finished=done, steps=[step], log=row.error, result=row.result)


def _of_delivery(row: Delivery) -> JobData:
    """Describe the delivery of a report, with one step for each attempt."""
    steps: list[StepData] = [
        {"name": f"attempt {number}", "status": "", "log": line["words"], "started_at": line["at"], "finished_at": None}
        for number, line in enumerate(row.log, start=1)
    ]
    done = row.status in _OPERATION_DONE
    return _job(row, "delivery", is_finished=done, steps=steps, log=_joined(steps), result=None)


def _of_order(row: Order) -> JobData:
    steps: list[StepData] = [
        {
            "name": line.label,
            "status": line.status,
            "log": "\n".join(line.texts),
            "started_at": None,
            "finished_at": None,
        }
        for line in step_lines(row)
    ]
    result = {"names": row.names, "seen": row.seen} if row.is_finished else None
    return _job(row, "certificate_order", is_finished=row.is_finished, steps=steps, log=_joined(steps), result=result)


def _of_rollout(row: Rollout) -> JobData:
    """Describe a rollout, with one step for each wave."""
    steps = []
    for line in wave_lines(row):
        said = "\n".join(str(found["words"]) for found in line.findings)
        steps.append(_step(f"wave {line.wave.position}", line.wave.status, said, line.wave))
    result = {"outcome": row.status} if row.is_finished else None
    return _job(row, "rollout", is_finished=row.is_finished, steps=steps, log=_joined(steps), result=result)


def _of_preview(row: Preview) -> JobData:
    result = {"asked": row.asked, "different": row.count} if row.is_finished else None
    return _job(row, "preview", is_finished=row.is_finished, steps=[], log=row.progress, result=result)


def _of_publication(row: Publication) -> JobData:
    """Describe a publication, with one step for each host."""
    status = {"published": "succeeded", "failed": "failed", "returned": "failed"}
    steps = [
        _step(f"{target['host']}: {target['folder']}", status.get(target["state"], "running"), target["words"], row)
        for target in row.targets
    ]
    result = {"release": row.release.number if row.release else None} if row.is_finished else None
    return _job(row, "publication", is_finished=row.is_finished, steps=steps, log=row.progress, result=result)


_DESCRIBE: dict[str, Callable[[Any], JobData]] = {
    "deployment": _of_deployment,
    "run": _of_run,
    "comparison": _of_comparison,
    "suite": _of_suite,
    "host_job": _of_host_job,
    "delivery": _of_delivery,
    "certificate_order": _of_order,
    "rollout": _of_rollout,
    "preview": _of_preview,
    "publication": _of_publication,
}


def job_find(user: User, uuid: UUID) -> JobData | None:
    """Return a job in the common format; None if it does not exist or `user` has no access to it."""
    found = job_found(user, uuid)
    return _DESCRIBE[found[0].name](found[1]) if found else None


def job_cancel(actor: User, uuid: UUID) -> bool:
    """Cancel a job; return False if the job does not exist or `actor` has no access to it.

    The service for the job's type decides whether the job can be cancelled. Raises Conflict for types of jobs that can
    never be cancelled.
    """
    found = job_found(actor, uuid)
    if found is None:
        return False
    kind, row = found
    if kind.cancel is None:
        raise Conflict(f"The job “{row}” cannot be cancelled. Wait until the job has ended.")
    kind.cancel(actor, row)
    return True
