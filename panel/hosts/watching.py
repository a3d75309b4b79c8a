"""Automatic detection of hosts that stop responding, and of web servers that stop running."""

from __future__ import annotations

import logging

from django.db.models import Q

from panel.core.errors import ApplicationError
from panel.hosts import jobs
from panel.hosts.models import Host, HostStatus
from panel.remote.errors import HostKeyChanged, RemoteError

logger = logging.getLogger(__name__)

# A host whose key must be confirmed is skipped, because nothing would be sent.
WATCHED = Q(is_paused=False, status__in=(HostStatus.READY, HostStatus.UNREACHABLE))
AGAIN_AFTER_S = 60  # a single failure may be a brief network problem


def hosts_watched() -> list[int]:
    return list(Host.objects.filter(WATCHED).order_by("pk").values_list("pk", flat=True))


def host_watch(pk: int, *, is_second: bool = False) -> bool:
    """Check a host. Returns False if it did not respond; the second failure in a row is recorded."""
    host = Host.objects.filter(WATCHED, pk=pk).first()
    if host is None:  # deleted, paused or no longer trusted
        return True
    try:
        jobs.look(host)
    except RemoteError as error:
        was_known = host.status == HostStatus.UNREACHABLE
        if is_second or was_known or isinstance(error, HostKeyChanged):
            jobs.lost(host, error)
            return True
        return False
    except ApplicationError as error:  # no connection data: the host's page shows what is missing
        logger.info("%s was not looked at: %s", host, error.message)
    return True
