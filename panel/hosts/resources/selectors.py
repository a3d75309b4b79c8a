"""Reads of hosts' resources."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.utils import timezone

from panel.accounts.models import User
from panel.hosts.models import Host, HostReading, HostStatus
from panel.hosts.resources import problems, readings
from panel.hosts.resources.readings import Problem, Reading
from panel.hosts.selectors import hosts_visible

CURRENT = dt.timedelta(minutes=10)  # an older reading tells nothing about now


@dataclass(frozen=True)
class Trouble:
    """A problem of a host, in words."""

    host: Host
    problem: Problem
    label: str
    words: str


def last_reading(host: Host) -> Reading | None:
    return readings.loaded(host.resources)


def is_current(host: Host) -> bool:
    is_ready = host.status == HostStatus.READY
    return is_ready and host.resources_at is not None and timezone.now() - host.resources_at < CURRENT


def host_troubles(host: Host) -> list[Trouble]:
    """Problems of the last reading; none if that is too old to tell."""
    reading = last_reading(host) if is_current(host) else None
    if reading is None:
        return []
    return [
        Trouble(host, problem, problems.label(problem), problems.words(problem, reading))
        for problem in reading.problems
    ]


def troubles(user: User) -> list[Trouble]:
    """Problems of the user's hosts that respond and are not paused, by name."""
    rows = hosts_visible(user).filter(
        status=HostStatus.READY, is_paused=False, resources_at__gt=timezone.now() - CURRENT
    )
    with_problems = rows.exclude(resources__problems=[])
    return [trouble for host in with_problems.order_by("name") for trouble in host_troubles(host)]


def reboots_needed(user: User) -> list[Host]:
    """Hosts of the user whose packages wait for a reboot, by name."""
    return list(hosts_visible(user).filter(resources__reboot_needed=True).order_by("name"))


def history(host: Host, since: dt.datetime) -> list[HostReading]:
    """Rows of the history from a time on, oldest first."""
    return list(HostReading.objects.filter(host=host, at__gte=since).order_by("at"))
