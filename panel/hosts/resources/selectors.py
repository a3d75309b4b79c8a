"""Selectors for the resources of hosts: last readings, problems, and history."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.utils import timezone

from panel.accounts.models import User
from panel.hosts.models import Host, HostReading, HostStatus
from panel.hosts.resources import problems, readings
from panel.hosts.resources.readings import Problem, Reading
from panel.hosts.selectors import hosts_visible

CURRENT = dt.timedelta(minutes=10)  # older readings are ignored


@dataclass(frozen=True)
class Trouble:
    """A problem of a host's resources, with the problem's short name (`label`) and a sentence about it (`words`)."""

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
    """Return the problems in the last reading of a host's resources; [] if the reading is older than CURRENT."""
    reading = last_reading(host) if is_current(host) else None
    if reading is None:
        return []
    return [
        Trouble(host, problem, problems.label(problem), problems.words(problem, reading))
        for problem in reading.problems
    ]


def troubles(user: User) -> list[Trouble]:
    """Return the resource problems of all hosts that the user can see, that respond, and that are not paused; sorted by
    the name of the host.
    """
    rows = hosts_visible(user).filter(
        status=HostStatus.READY, is_paused=False, resources_at__gt=timezone.now() - CURRENT
    )
    with_problems = rows.exclude(resources__problems=[])
    return [trouble for host in with_problems.order_by("name") for trouble in host_troubles(host)]


def reboots_needed(user: User) -> list[Host]:
    """Return the hosts that the user can see and that need a reboot because of installed packages, sorted by name."""
    return list(hosts_visible(user).filter(resources__reboot_needed=True).order_by("name"))


def history(host: Host, since: dt.datetime) -> list[HostReading]:
    """Return the rows of a host's history of resources since a time, oldest first; each row covers ten minutes."""
    return list(HostReading.objects.filter(host=host, at__gte=since).order_by("at"))
