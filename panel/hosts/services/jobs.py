"""Services for jobs on a host, which a worker runs (panel/hosts/execution.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.core.messages import Task, task_send_on_commit
from panel.hosts import preparing
from panel.hosts.models import Host, HostJob, HostJobKind

SERVICE_ACTIONS = ("start", "stop", "reload")
Params = Mapping[str, Any]
UNFINISHED = (JobStatus.QUEUED, JobStatus.RUNNING)


@transaction.atomic
def host_job_request(*, actor: User | None, host: Host, kind: str, params: Params | None = None) -> HostJob:
    """Queue a host job and wake a worker; return the job. If the same job is already queued, return that job instead.

    `actor` None is the panel itself. `params` for the kind SERVICE: {"web_server": pk, "action": start|stop|reload}.
    Other kinds take the parameters that their function in PARAMS accepts; kinds without a function take none. Raises
    PermissionDenied, ValidationError.
    """
    if actor is not None:
        require(actor, Action.ADMINISTER)
    job = HostJob(host=host, kind=kind, params=_checked(host, kind, params or {}), requested_by=actor)
    job.full_clean(exclude=["requested_by", "result", "claimed_by", "heartbeat_at", "started_at", "finished_at"])
    waiting = HostJob.objects.filter(host=host, kind=kind, status=JobStatus.QUEUED)
    for known in waiting:
        if known.params == job.params:
            return known
    job.save()
    audit_record(actor=actor, action=f"host.{kind}", target=host, after={"job": str(job.uuid), **job.params})
    task_send_on_commit(Task.JOB_RUN, str(job.uuid))
    return job


@transaction.atomic
def host_jobs_request(*, actor: User, hosts: Iterable[Host], kind: str) -> list[HostJob]:
    """Queue a job of the same kind for many hosts, all or none; return the jobs. If a host already has the same job in
    the queue, return that job instead of a new one.
    """
    require(actor, Action.ADMINISTER)
    chosen = list({host.pk: host for host in hosts}.values())
    if not chosen:
        raise ApplicationError("No hosts selected. Choose at least one host.", field="hosts")
    return [host_job_request(actor=actor, host=host, kind=kind) for host in chosen]


@transaction.atomic
def host_job_cancel(*, actor: User, job: HostJob) -> HostJob:
    """Cancel a queued host job. Raises Conflict if the job is running or has ended."""
    require(actor, Action.ADMINISTER)
    rows = HostJob.objects.filter(pk=job.pk, status=JobStatus.QUEUED)
    if not rows.update(status=JobStatus.CANCELLED, finished_at=timezone.now()):
        raise Conflict(f"{job} is already running and cannot be cancelled.")
    audit_record(actor=actor, action="host_job.cancel", target=job.host, after={"job": str(job.uuid)})
    job.refresh_from_db()
    return job


def _checked(host: Host, kind: str, params: Params) -> Params:
    if kind in PARAMS:
        return PARAMS[kind](host, params)
    if params:
        raise ValidationError({"params": f"Jobs of the kind {kind} take no parameters. Omit the parameters."})
    return {}


def _service_params(host: Host, params: Params) -> Params:
    if set(params) != {"web_server", "action"}:
        raise ValidationError({"params": "Set the web server (web_server) and the action (action)."})
    if params["action"] not in SERVICE_ACTIONS:
        raise ValidationError({"action": f"Set action to one of {', '.join(SERVICE_ACTIONS)}."})
    if not isinstance(params["web_server"], int) or not host.web_servers.filter(pk=params["web_server"]).exists():
        raise ValidationError({"web_server": f"{host.name} has no web server with this ID."})
    return {"web_server": params["web_server"], "action": params["action"]}


# Checks of parameters by kind; other apps register those of their own kinds (failover: virtual addresses).
PARAMS: dict[str, Callable[[Host, Params], Params]] = {
    HostJobKind.PREPARE: preparing.checked,
    HostJobKind.SERVICE: _service_params,
}
