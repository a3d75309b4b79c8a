"""Create the PHP-FPM pools of a move before its transaction is sent, and remove them if the transaction does not
succeed. Makes no database query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agents.protocol import StepEvent, plain
from panel.core.errors import ApplicationError
from panel.deployments.models import Deployment, StepStatus
from panel.deployments.plan import PlanPool
from panel.deployments.pool_moves import handlers
from panel.hosts.models import Host
from panel.remote.client import Message
from panel.remote.errors import CallTimeout, ConnectionLost, OperationRefused

CREATED, REMOVED = "pool", "undo_pool"  # names of steps

Tell = Callable[[Message], None]


@dataclass
class Pools:
    """The new pools of one deployment, with the `steps` taken so far. `made`: pools that the host may have."""

    deployment: Deployment
    tell: Tell
    steps: list[StepEvent] = field(default_factory=list)
    made: list[PlanPool] = field(default_factory=list)

    def were_made(self) -> None:
        """Record the steps of an earlier attempt, which may have created all pools."""
        self.made = list(self.deployment.plan.new_pools)
        self.steps = [StepEvent(CREATED, StepStatus.SUCCEEDED, output=_created(pool)) for pool in self.made]

    def create(self) -> None:
        """Create the pools one after the other. Raises ApplicationError; the pool concerned is then in `made` only if
        the host may have it.
        """
        self.steps.clear()
        for pool in self.deployment.plan.new_pools:
            try:
                self._step(CREATED, pool, _created(pool))
            except (ConnectionLost, CallTimeout):
                self._add(pool)
                raise
            self._add(pool)

    def remove(self) -> dict[str, str]:
        """Remove the pools in `made` again. Return {name: reason} for pools that the host may still have."""
        left = {}
        for pool in self.made:
            try:
                self._step(REMOVED, pool, f"PHP pool {pool.name} is removed from {pool.host}")
            except ApplicationError as error:
                left[pool.name] = error.message
        return left

    def _add(self, pool: PlanPool) -> None:
        if pool not in self.made:
            self.made.append(pool)

    def _step(self, name: str, pool: PlanPool, words: str) -> None:
        began = time.time()
        self.tell(plain(StepEvent(name, StepStatus.RUNNING, output=words, started_at=began)))
        status, output = StepStatus.SUCCEEDED, words
        try:
            for handler in handlers:
                (handler.create if name == CREATED else handler.remove)(self.deployment.host, pool)
        except ApplicationError as error:
            status, output = StepStatus.FAILED, f"{words}: {error.message}"
            raise
        finally:
            event = StepEvent(name, status, output=output, started_at=began, finished_at=time.time())
            self.steps.append(event)
            self.tell(plain(event))


def _created(pool: PlanPool) -> str:
    return f"PHP pool {pool.name} is created on {pool.host}: PHP {pool.php_version}, account {pool.account}"


def left_words(host: Host, left: Mapping[str, str]) -> str:
    """Return sentences about pools that could not be removed from the host, as {name: reason}."""
    words = "The PHP pool {name} could not be removed from {host}: {reason}. Remove the pool on the site's PHP page."
    return " ".join(words.format(name=name, host=host, reason=reason.rstrip(".")) for name, reason in left.items())


def is_busy(error: ApplicationError) -> bool:
    """Return whether the deployment waits and is tried again, because the host is busy or the connection broke."""
    return isinstance(error, ConnectionLost | CallTimeout) or (isinstance(error, OperationRefused) and error.retry)
