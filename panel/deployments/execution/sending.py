"""One deployment and its host's agent: hand the transaction over, or ask what became of it. Makes no query, so that
any number of these may wait for their hosts at once."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from agents.protocol import ApplyRequest, ApplyResult, Probe
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.execution import comparing
from panel.deployments.execution.outcomes import End, end_of
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.plan import FileRecord
from panel.remote.client import Asked, outcome
from panel.remote.errors import CallTimeout, ConnectionLost, OperationRefused

logger = logging.getLogger(__name__)

ASK_EVERY_S = 2.0
# A host that was cut off in the middle is asked this long; its agent finishes or undoes meanwhile.
ASK_FOR_S = 600.0
RESOLVE_TIMEOUT_S = 30.0  # longer than the agent gives itself


@dataclass(frozen=True)
class Dispatch:
    """`attempted`: an earlier attempt may have reached the host. `install_files`: what stands of each server's own
    files if it is applied; `compared`: what adopted sites are asked before and after. `names`: of upstream
    servers, which the host resolves first."""

    deployment: Deployment
    request: ApplyRequest
    install_files: Mapping[int, list[FileRecord]]
    attempted: bool
    compared: Sequence[Probe] = ()
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """How it ended, or why it waits in the queue, or the fault of the panel that broke it."""

    end: End | None = None
    waits: str = ""
    broke: Exception | None = None
    drift: bool = False  # files were in the way that somebody edited on the host


@dataclass(frozen=True)
class Before:
    """What adopted sites answered before anything was sent (comparing): to be written down at once, since afterwards
    nobody can ask again."""

    comparison: dict[str, Any]


@dataclass(frozen=True)
class Lost:
    """The answer to what `hand_over` sent was lost: `ask_again`, which waits, finds out what became of it."""

    cause: ApplicationError


Tell = Callable[[dict[str, Any] | Before], None]


def hand_over(job: Dispatch, tell: Callable[[dict[str, Any] | Verdict | Lost], None]) -> Asked | None:
    """Sends the transaction where nobody has to be waited for: the host is connected, and nothing is to be known
    before. `tell` then gets its events and how it ended, from another thread. None where `deliver` is needed."""
    host = job.deployment.host
    if job.attempted or job.compared or job.names:
        return None

    def heard(message: dict[str, Any] | None) -> None:
        if message is not None and message["type"] == "event":
            tell(message["data"])
            return
        try:
            tell(_concluded(job, message))
        except Exception as error:  # noqa: BLE001 - told to the thread that writes, which logs it
            tell(Verdict(broke=error))

    try:
        return host_agent.apply_ask(host, job.request, heard) if host_agent.is_ready(host) else None
    except ApplicationError:  # the same transaction again is no second one: `deliver` finds the reason
        return None


def _concluded(job: Dispatch, message: dict[str, Any] | None) -> Verdict | Lost:
    try:
        return _ended(job, host_agent.result_of(outcome(job.deployment.host.name, "apply", message)))
    except ConnectionLost as error:
        return Lost(error)
    except OperationRefused as error:
        return _refused(job, error)


def ask_again(job: Dispatch, lost: Lost) -> Verdict:
    """Waits until the host says what became of it."""
    return _ask_again(job, lost.cause, None)


def deliver(job: Dispatch, tell: Tell) -> Verdict:
    """Carries one out, however long that takes."""
    if job.attempted:
        try:
            known = host_agent.outcome(job.deployment.host, job.request.transaction)
        except ApplicationError as error:
            return _ask_later(job, error)
        if known is not None:
            return _ended(job, known)
    if words := _refused_names(job):
        return _failed(job, f"{words}. Nothing was changed on the host.")
    before = _ask_before(job)
    if before is not None:
        tell(before)
    return _send(job, tell, before)


def _refused_names(job: Dispatch) -> str:
    """Which names lead to a cloud's metadata service on the host now; they may have meant something else when it was
    planned, or nobody could ask. Names that the host does not resolve in time are refused: whoever answers for
    them could wait for that."""
    if not job.names:
        return ""
    try:
        return "; ".join(host_agent.refused_ask(job.deployment.host, job.names)(RESOLVE_TIMEOUT_S).values())
    except (OperationRefused, CallTimeout) as error:
        return f"The names of its upstream servers were not resolved: {error.message}"
    except ApplicationError:
        return ""  # it cannot be reached: sending says why


def _ask_before(job: Dispatch) -> Before | None:
    """Two rounds, to know what changes by itself. A host that cannot answer now is no reason not to deploy to it."""
    if not job.compared:
        return None
    questions = [comparing.question(probe) for probe in job.compared]
    try:
        first, again = (host_agent.answers(job.deployment.host, questions) for _round in range(2))
    except ApplicationError as error:
        logger.warning("deployment %s is not compared: %s", job.deployment.uuid, error.message)
        return None
    return Before({"requests": comparing.begun(job.compared, first, again), "complete": False})


def _ask_after(job: Dispatch, before: Before | None) -> dict[str, Any] | None:
    """The whole comparison, when there is a beginning of it: now, or by the worker that sent the transaction."""
    begun = before.comparison if before is not None else job.deployment.comparison
    if not begun or begun["complete"]:
        return None
    try:
        after = host_agent.answers(job.deployment.host, [row["question"] for row in begun["requests"]])
    except ApplicationError as error:
        logger.warning("deployment %s is not compared: %s", job.deployment.uuid, error.message)
        return None
    return comparing.finished(begun["requests"], after)


def _send(job: Dispatch, tell: Tell, before: Before | None) -> Verdict:
    try:
        return _ended(job, host_agent.apply(job.deployment.host, job.request, tell), before)
    except (ConnectionLost, CallTimeout) as error:
        return _ask_again(job, error, before)
    except OperationRefused as error:
        return _refused(job, error)
    except ApplicationError as error:
        return _failed(job, f"{error.message} The host was not changed.")


def _refused(job: Dispatch, error: OperationRefused) -> Verdict:
    if error.retry:
        return Verdict(waits=error.message)
    return _failed(job, f"{error.message} The host was not changed.", drift=error.code == "drift")


def _ask_again(job: Dispatch, cause: ApplicationError, before: Before | None) -> Verdict:
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
        return (
            _ended(job, known, before)
            if known
            else Verdict(waits=f"{cause.message} The host had not started the deployment.")
        )
    return _ask_later(job, error)


def _ask_later(job: Dispatch, error: ApplicationError) -> Verdict:
    """Leave the question to the next sweep, or say after ASK_FOR_S that nobody answers."""
    assert job.deployment.started_at is not None
    if timezone.now() - job.deployment.started_at < datetime.timedelta(seconds=ASK_FOR_S):
        return Verdict(waits=error.message)
    return _failed(
        job,
        f"The connection to the host broke during the deployment: {error.message} The host's agent "
        "completes the deployment or rolls it back. When the host is reachable again, check it for "
        "drift.",
    )


def _ended(job: Dispatch, result: ApplyResult, before: Before | None = None) -> Verdict:
    comparison = _ask_after(job, before) if result.outcome == "applied" else None
    return Verdict(end_of(job.deployment, result, job.install_files, comparison))


def _failed(job: Dispatch, words: str, *, drift: bool = False) -> Verdict:
    return Verdict(End(job.deployment, DeploymentStatus.FAILED, words), drift=drift)
