"""Read the resources of a host and store them: the last reading in Host.resources, and a row for each ten minutes."""

from __future__ import annotations

import datetime as dt
import logging
import time

from django.utils import timezone

from panel.core.changed_messages import ChangedMessages
from panel.hosts.models import Host, HostReading
from panel.hosts.resources import problems, readings
from panel.hosts.resources.readings import Reading
from panel.remote.errors import ConnectionLost, RemoteError
from panel.remote.pool import Session

EVERY_MINUTES = 10  # one row of the history
TIMEOUT_S = 10.0  # a dead disk may keep the agent waiting
KEPT = dt.timedelta(minutes=30)  # maximum age of the previous reading for comparisons

_messages = ChangedMessages(logging.getLogger(__name__))


def resources_read(host: Host, agent: Session) -> None:
    """Ask the agent for the host's resources and store the reading. If the agent fails, keep the last reading. Raises
    ConnectionLost.
    """
    asked_at = time.time()
    try:
        data = agent.call("resources", timeout=TIMEOUT_S)
    except ConnectionLost:
        raise
    except RemoteError as error:
        _messages.problem(host.pk, f"{host} did not report its resources: {error.message}")
        return
    _messages.solved(host.pk)
    resources_record(host, readings.reading_of(data, asked_at=asked_at, received_at=time.time()), timezone.now())


def resources_record(host: Host, reading: Reading, now: dt.datetime) -> None:
    before = None
    if host.resources_at is not None and dt.timedelta() <= now - host.resources_at < KEPT:
        before = readings.loaded(host.resources)
    reading = problems.judged(readings.since(reading, before), before)
    host.resources, host.resources_at = readings.stored(reading), now
    Host.objects.filter(pk=host.pk).update(resources=host.resources, resources_at=now)
    _to_history(host, reading, now)


def _to_history(host: Host, reading: Reading, now: dt.datetime) -> None:
    at = now.replace(minute=now.minute - now.minute % EVERY_MINUTES, second=0, microsecond=0)
    row, _is_new = HostReading.objects.get_or_create(host=host, at=at, defaults={"count": 0})
    means = {"cpu": reading.cpu_share, "memory": reading.memory_share}
    highest = {
        "cpu_most": reading.cpu_share,
        "memory_most": reading.memory_share,
        "swap_most": reading.swap_share,
        "disk_most": reading.disk_share,
        "load_most": reading.load[0] if reading.load else None,
    }
    for name, value in means.items():
        setattr(row, name, _mean(getattr(row, name), value, row.count))
    for name, value in highest.items():
        setattr(row, name, max((known for known in (getattr(row, name), value) if known is not None), default=None))
    row.count += 1
    row.save(update_fields=["count", *means, *highest])


def _mean(mean: float | None, value: float | None, count: int) -> float | None:
    """Return the mean of `value` and `count` earlier values, whose mean is `mean`. If `value` is None, the mean stays
    unchanged.
    """
    if mean is None or value is None:
        return value if mean is None else mean
    return mean + (value - mean) / (count + 1)
