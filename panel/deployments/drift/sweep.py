"""Check every host for drift, several at once, in threads of the sweep: an unresponsive host delays no other work."""

from __future__ import annotations

import random
import time

from django.core.cache import cache

from panel.deployments.drift.selectors import host_to_check, hosts_to_check
from panel.deployments.drift.services import drift_check_quietly
from panel.hosts.sweeps import sweep_hosts

EVERY_S = 600.0  # between two sweeps (settings.CELERY_BEAT_SCHEDULE)
REST_S = 30.0  # no check begins in the last REST_S before the next sweep
AT_ONCE = 4  # hosts: deployments of the same worker need the processor too
_SWEEP = "deployments:drift-sweep"


def hosts_check() -> int:
    """Check every ready host for drift once; return the number of checked hosts.

    Return 0 at once if any worker began a sweep less than about EVERY_S ago.
    """
    if not cache.add(_SWEEP, True, timeout=EVERY_S - REST_S):
        return 0
    until = time.monotonic() + EVERY_S - REST_S
    hosts = hosts_to_check()
    random.shuffle(hosts)  # each gets its turn when there are more than one sweep can check

    failure = "host %s was not checked for drift"
    return sweep_hosts(host_check, hosts, until=until, at_once=AT_ONCE, failure=failure)


def host_check(pk: int) -> bool:
    """Check one host for drift; return False if it was deleted or paused meanwhile."""
    host = host_to_check(pk)
    if host is not None:
        drift_check_quietly(host)
    return host is not None
