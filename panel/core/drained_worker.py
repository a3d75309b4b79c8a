"""Celery step that stops the worker of a drained machine from taking messages, so that they reach other machines."""

from __future__ import annotations

from typing import Any

from celery import bootsteps

from panel.core.draining import is_draining
from panel.core.queue import uses_redis

LOOK_EVERY_S = 1.0


class LeaveMessages(bootsteps.StartStopStep):
    """Step of Celery's consumer that stops taking messages while the machine is drained, and resumes afterwards.

    The step is for Redis only: the queue in a folder is used by one machine, where no other worker waits for
    messages.
    """

    requires = ("celery.worker.consumer:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        super().__init__(consumer, **options)
        self._timer: Any = None
        self._leaves = False

    def include_if(self, consumer: Any) -> bool:
        return uses_redis(consumer.app)

    def start(self, consumer: Any) -> None:
        """Start to check regularly whether the machine is drained.

        Celery calls this for each new connection to Redis. The connection takes messages until the first check.
        """
        self._leaves = False
        self._timer = consumer.timer.call_repeatedly(LOOK_EVERY_S, self._follow, (consumer,))

    def stop(self, consumer: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    shutdown = stop

    def _follow(self, consumer: Any) -> None:
        """Stop taking messages if the machine is now drained, or resume if it no longer is.
        A message that still arrives after the stop returns to the queue, because kombu finds no consumer for
        it.
        """
        if is_draining() == self._leaves:
            return
        self._leaves = not self._leaves
        if self._leaves:
            consumer.task_consumer.cancel()
        else:
            consumer.task_consumer.consume()
