"""Hosts that stop answering, and servers that stop running, are found out without anybody asking."""

from __future__ import annotations

import logging

from django.db.models import Q

from panel.core.errors import ApplicationError
from panel.hosts import errands
from panel.hosts.models import Host, HostStatus
from panel.remote.errors import HostKeyChanged, RemoteError

logger = logging.getLogger(__name__)

# One that waits for its key to be compared is not asked again and again: nothing would be sent.
WATCHED = Q(is_paused=False, status__in=(HostStatus.READY, HostStatus.UNREACHABLE))
AGAIN_AFTER_S = 60  # a single silence may be a network's hiccup


def hosts_watched() -> list[int]:
    return list(Host.objects.filter(WATCHED).order_by("pk").values_list("pk", flat=True))


def host_watch(pk: int, *, is_second: bool = False) -> bool:
    """Looks at a host. False: it did not answer, which is believed, and noted, when it is asked a second time."""
    host = Host.objects.filter(WATCHED, pk=pk).first()
    if host is None:  # deleted, paused or distrusted meanwhile
        return True
    try:
        errands.look(host)
    except RemoteError as error:
        was_known = host.status == HostStatus.UNREACHABLE
        if is_second or was_known or isinstance(error, HostKeyChanged):
            errands.lost(host, error)
            return True
        return False
    except ApplicationError as error:  # it has no way to be asked: its page says which
        logger.info("%s was not looked at: %s", host, error.message)
    return True
