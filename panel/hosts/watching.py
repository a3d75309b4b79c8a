"""Detect hosts that stop responding, and web servers that stop running."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from django.db.models import Q

from panel.core.changed_messages import ChangedMessages
from panel.core.errors import ApplicationError
from panel.hosts import jobs
from panel.hosts.models import Host, HostStatus
from panel.remote.errors import HostKeyChanged, RemoteError

_messages = ChangedMessages(logging.getLogger(__name__), logging.INFO)

# A host whose key must be confirmed is skipped, because nothing would be sent.
WATCHED = Q(is_paused=False, status__in=(HostStatus.READY, HostStatus.UNREACHABLE))
AGAIN_AFTER_S = 2.0  # a single failure may be a brief network problem


def hosts_watched() -> tuple[list[int], list[int]]:
    """Return two lists of primary keys of watched hosts: those that responded at the last check, and those that did
    not.
    """
    rows = Host.objects.filter(WATCHED).order_by("pk").values_list("pk", "status")
    return (
        [pk for pk, status in rows if status == HostStatus.READY],
        [pk for pk, status in rows if status == HostStatus.UNREACHABLE],
    )


def host_look(pk: int, *, pause: Callable[[float], None] = time.sleep) -> Host | None:
    """Check a host and record whether it responds. Return the host with its new status; None if the host is no longer
    watched, or if its connection data is incomplete.

    A host that responded at the last check is recorded as unreachable only after a second failed attempt.
    """
    host = Host.objects.select_related("authority", "bastion__authority").filter(WATCHED, pk=pk).first()
    if host is None:  # deleted, paused or no longer trusted
        return None
    attempts = 2 if host.status == HostStatus.READY else 1
    for attempt in range(1, attempts + 1):
        try:
            jobs.look(host)
        except RemoteError as error:
            if attempt == attempts or isinstance(error, HostKeyChanged):
                jobs.lost(host, error)
                break
            pause(AGAIN_AFTER_S)
        except ApplicationError as error:  # no connection data: the host's page shows what is missing
            _messages.problem(host.pk, f"{host} was not looked at: {error.message}")
            return None
        else:
            _messages.solved(host.pk)
            break
    host.refresh_from_db(fields=["status", "status_detail", "last_seen_at"])
    return host
