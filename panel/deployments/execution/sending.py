"""Send the transaction of a deployment to its host's agent, or request its result. Makes no database query, so any
number of deployments can wait for hosts at the same time.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.utils import timezone

from agents.protocol import ApplyRequest, ApplyResult, Probe
from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.deployments.execution import comparing
from panel.deployments.execution.elsewhere import Elsewhere, observed
from panel.deployments.execution.joining import Group
from panel.deployments.execution.outcomes import STATUS_OF, End, end_of
from panel.deployments.execution.pools import CREATED, Pools, is_busy, left_words
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.plan import FileRecord
from panel.remote.client import Asked, Message, outcome
from panel.remote.errors import CallTimeout, ConnectionLost, OperationRefused

logger = logging.getLogger(__name__)

ASK_EVERY_S = 2.0
# A deployment that its host has not begun within this time after the first attempt does not begin any more.
BEGIN_WITHIN_S = 600.0
RESOLVE_TIMEOUT_S = 30.0  # longer than the agent's own limit


@dataclass(frozen=True)
class Dispatch:
    """A transaction to send, for one deployment or for several that share the transaction.

    `attempted`: an earlier attempt may have reached the host. `web_server_files`: each web server's shared files after
    success. `compared`: requests to adopted sites, sent before and after the change. `names`: names of upstream
    servers; the host resolves them before the change. `elsewhere`: old hosts of the sites that move.
    """

    group: Group
    request: ApplyRequest
    web_server_files: Mapping[int, list[FileRecord]]
    attempted: bool
    compared: Sequence[Probe] = ()
    names: frozenset[str] = frozenset()
    elsewhere: Sequence[Elsewhere] = ()

    @property
    def deployment(self) -> Deployment:
        """The first deployment of the transaction, which represents all of them."""
        return self.group[0]

    @property
    def is_joined(self) -> bool:
        return self.deployment.joined_as is not None


@dataclass(frozen=True)
class Verdict:
    """Outcome of an attempt to carry out a transaction; exactly one field is set besides `drift`.

    `end` is the result of the first deployment; the others of the transaction ended in the same way. `waits` is the
    reason why the deployments wait in the queue, `alone` the reason why they must be carried out one by one, `broke` an
    exception in the panel.
    """

    end: End | None = None
    waits: str = ""
    alone: str = ""
    broke: Exception | None = None
    drift: bool = False  # files edited on the host blocked the deployment


@dataclass(frozen=True)
class Before:
    """Responses of adopted sites before the change, the first half of a comparison (comparing.py).

    The receiver must record them at once, because they cannot be requested again after the change.
    """

    comparison: Message


@dataclass(frozen=True)
class Lost:
    """The response to a transaction that `hand_over` sent was lost; `ask_again` requests the result."""

    cause: ApplicationError


Tell = Callable[[Message | Before], None]


def hand_over(job: Dispatch, tell: Callable[[dict[str, object] | Verdict | Lost], None]) -> Asked | None:
    """Send the transaction without waiting for its result, if the host is connected and needs no requests beforehand.

    Another thread then passes events and the result to `tell`. Return None if `deliver` has to send the transaction.
    """
    host = job.deployment.host
    if job.attempted or job.compared or job.names or job.elsewhere or job.deployment.plan.new_pools:
        return None

    def heard(message: Message | None) -> None:
        if message is not None and message["type"] == "event":
            tell(message["data"])
            return
        try:
            tell(_concluded(job, message))
        except Exception as error:  # noqa: BLE001 - told to the thread that writes, which logs it
            tell(Verdict(broke=error))

    try:
        return host_agent.apply_ask(host, job.request, heard) if host_agent.is_ready(host) else None
    except ApplicationError:  # a repeated transaction is safe: `deliver` reports the reason
        return None


def _concluded(job: Dispatch, message: dict[str, object] | None) -> Verdict | Lost:
    try:
        return _ended(job, host_agent.result_of(outcome(job.deployment.host.name, "apply", message)))
    except ConnectionLost as error:
        return Lost(error)
    except OperationRefused as error:
        return _refused(job, error)


def ask_again(job: Dispatch, lost: Lost) -> Verdict:
    """Request the result of a transaction whose response was lost. The returned Verdict has the result, or the reason
    to ask again later.
    """
    return _ask_again(job, lost.cause, None)


def deliver(job: Dispatch, tell: Tell) -> Verdict:
    """Carry out one transaction on its host and wait for its end; return the result, or the reason to try again."""
    pools = Pools(job.deployment, tell)
    return _with_pools(_deliver(job, tell, pools), pools)


def _with_pools(verdict: Verdict, pools: Pools) -> Verdict:
    """Remove the PHP-FPM pools of a transaction that did not succeed, and add the steps of its pools to the result."""
    end = verdict.end
    if end is None or not pools.deployment.plan.new_pools:
        return verdict
    left = {} if end.status == DeploymentStatus.SUCCEEDED else pools.remove()
    error = " ".join(filter(None, [end.error, left_words(pools.deployment.host, left)]))
    made = [step for step in pools.steps if step.name == CREATED]
    steps = [*made, *end.steps, *(step for step in pools.steps if step.name != CREATED)]
    return replace(verdict, end=replace(end, steps=steps, error=error, left_pools=frozenset(left)))


def _deliver(job: Dispatch, tell: Tell, pools: Pools) -> Verdict:
    if job.attempted:
        pools.were_made()
        try:
            known = host_agent.outcome(job.deployment.host, job.request.transaction)
        except ApplicationError as error:
            return _ask_later(job, error)
        if known is not None:
            return _ended(job, known)
        if job.is_joined or _is_too_late(job):
            return _abandon(job)
    if words := _refused_names(job):
        return _failed(job, f"{words}. Nothing was changed on the host.")
    try:
        pools.create()
    except ApplicationError as error:
        if is_busy(error):
            return Verdict(waits=error.message)
        return _failed(job, f"{error.message.rstrip('.')}. The web server was not changed.")
    before = _ask_before(job)
    if before is not None:
        tell(before)
    if job.elsewhere:
        job = replace(job, request=observed(job.request, job.elsewhere))
    return _send(job, tell, before)


def _refused_names(job: Dispatch) -> str:
    """Return why names of upstream servers are refused, as one text; "" if no name is refused.

    A name is refused if it resolves, on the host, to a cloud's metadata service. The name may have resolved to another
    address when the plan was made. Names that do not resolve in time are refused as well, because their DNS server
    could delay on purpose.
    """
    if not job.names:
        return ""
    try:
        return "; ".join(host_agent.refused_ask(job.deployment.host, job.names)(RESOLVE_TIMEOUT_S).values())
    except (OperationRefused, CallTimeout) as error:
        return (
            f"{job.deployment.host} did not resolve the names of the sites' upstream servers: "
            f"{error.message.rstrip('.')}"
        )
    except ApplicationError:
        return ""  # unreachable: sending reports the reason


def _ask_before(job: Dispatch) -> Before | None:
    """Send the requests to adopted sites twice before the change, to detect content that changes by itself.

    Return None if there are no such requests, or if the host does not respond: the deployment continues without a
    comparison.
    """
    if not job.compared:
        return None
    questions = [comparing.question(probe) for probe in job.compared]
    try:
        first, again = (host_agent.answers(job.deployment.host, questions) for _round in range(2))
    except ApplicationError as error:
        logger.warning("deployment %s is not compared: %s", job.deployment.uuid, error.message)
        return None
    return Before({"requests": comparing.begun(job.compared, first, again), "complete": False})


def _ask_after(job: Dispatch, before: Before | None) -> Message | None:
    """Send the requests to adopted sites again after the change, and return the complete comparison.

    Return None if the requests were not sent before the change, or if the host does not respond.
    """
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
    """Request the result of a transaction every ASK_EVERY_S, at most five times. `cause` is the error that lost the
    first response.
    """
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
    """Return a Verdict that requeues the deployment, because the host that knows the result does not respond."""
    return Verdict(waits=f"{error.message} The result of the deployment is unknown until the host responds.")


def _is_too_late(job: Dispatch) -> bool:
    assert job.deployment.started_at is not None
    return timezone.now() - job.deployment.started_at > datetime.timedelta(seconds=BEGIN_WITHIN_S)


def _abandon(job: Dispatch) -> Verdict:
    """Forbid the host to begin a transaction that is too old, or whose deployments are to be sent one by one.

    The host remembers the transaction's id, so that a late request changes nothing. If the host had already begun the
    transaction, the returned Verdict has its result.
    """
    try:
        result = host_agent.abandoned(job.deployment.host, job.request.transaction)
    except ApplicationError as error:
        return _ask_later(job, error)
    if result.outcome != "abandoned":
        return _ended(job, result)
    if job.is_joined:
        return Verdict(alone="the host had not begun the joint deployment")
    minutes = round(BEGIN_WITHIN_S / 60)
    return _failed(
        job,
        f"{job.deployment.host} did not respond for more than {minutes} minutes and had not begun the deployment. "
        "Nothing was changed on the host. Plan the deployment again.",
    )


def _ended(job: Dispatch, result: ApplyResult, before: Before | None = None) -> Verdict:
    if job.is_joined and STATUS_OF[result.outcome] != DeploymentStatus.SUCCEEDED:
        return Verdict(alone=result.error or result.outcome)
    comparison = _ask_after(job, before) if result.outcome == "applied" else None
    return Verdict(end_of(job.deployment, result, job.web_server_files, comparison))


def _failed(job: Dispatch, words: str, *, drift: bool = False) -> Verdict:
    if job.is_joined:
        return Verdict(alone=words)
    return Verdict(End(job.deployment, DeploymentStatus.FAILED, words), drift=drift)
