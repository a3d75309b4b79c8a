"""One deployment and its host's agent: hand the transaction over, or ask what became of it. Makes no query, so that
any number of these may wait for their hosts at once."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from agents.protocol import ApplyRequest, ApplyResult
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.outcomes import End, end_of
from panel.remote.errors import CallTimeout, ConnectionLost, OperationRefused

ASK_EVERY_S = 2.0
# A host that was cut off in the middle is asked this long; its agent finishes or undoes meanwhile.
ASK_FOR_S = 600.0


@dataclass(frozen=True)
class Job:
    """`attempted`: an earlier attempt may have reached the host. `install_files`: what stands of each server's own
    files if it is applied."""

    deployment: Deployment
    request: ApplyRequest
    install_files: Mapping[int, list[dict[str, Any]]]
    attempted: bool


@dataclass(frozen=True)
class Verdict:
    """How it ended, or why it waits in the queue, or the fault of the panel that broke it."""

    end: End | None = None
    waits: str = ""
    broke: Exception | None = None
    drift: bool = False  # files were in the way that somebody edited on the host


def deliver(job: Job, on_event: host_agent.OnEvent) -> Verdict:
    """Carries one out, however long that takes."""
    if job.attempted:
        try:
            known = host_agent.outcome(job.deployment.host, job.request.transaction)
        except ApplicationError as error:
            return _ask_later(job, error)
        if known is not None:
            return _ended(job, known)
    return _send(job, on_event)


def _send(job: Job, on_event: host_agent.OnEvent) -> Verdict:
    try:
        return _ended(job, host_agent.apply(job.deployment.host, job.request, on_event))
    except (ConnectionLost, CallTimeout) as error:
        return _ask_again(job, error)
    except OperationRefused as error:
        if error.retry:
            return Verdict(waits=error.message)
        return _failed(job, f"{error.message} Nothing was changed on the host.", drift=error.code == "drift")
    except ApplicationError as error:
        return _failed(job, f"{error.message} Nothing was changed on the host.")


def _ask_again(job: Job, cause: ApplicationError) -> Verdict:
    """The answer was lost, not the work: ask until the host says what became of it."""
    error = cause
    deadline = time.monotonic() + ASK_EVERY_S * 5
    while time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)
        try:
            known = host_agent.outcome(job.deployment.host, job.request.transaction)
        except ApplicationError as again:
            error = again
            continue
        return _ended(job, known) if known else Verdict(waits=f"{cause.message} The host had not begun.")
    return _ask_later(job, error)


def _ask_later(job: Job, error: ApplicationError) -> Verdict:
    """Leave the question to the next sweep, or say after ASK_FOR_S that nobody answers."""
    assert job.deployment.started_at is not None
    if timezone.now() - job.deployment.started_at < datetime.timedelta(seconds=ASK_FOR_S):
        return Verdict(waits=error.message)
    return _failed(
        job,
        f"The connection broke while the host was at work, and it has not answered since: {error.message} "
        "Its agent finishes or undoes by itself; once the host answers, check it for drift to see what stands there.",
    )


def _ended(job: Job, result: ApplyResult) -> Verdict:
    return Verdict(end_of(job.deployment, result, job.install_files))


def _failed(job: Job, words: str, *, drift: bool = False) -> Verdict:
    return Verdict(End(job.deployment, DeploymentStatus.FAILED, words), drift=drift)
