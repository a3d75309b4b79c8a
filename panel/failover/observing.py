"""Read the state of keepalived on a host with the agent, and store it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from panel.failover.models import KeepalivedHost
from panel.failover.reading import cleaned
from panel.failover.selectors import addresses_to_watch
from panel.hosts.models import Host
from panel.remote.errors import OperationRefused
from panel.remote.pool import Session

TIMEOUT_S = 20.0


def host_observed(host: Host, agent: Session) -> None:
    """Read and store the state of keepalived if the host has a virtual address; called whenever a host is observed.

    Raises RemoteError if the host does not respond; an error of the agent's operation is stored.
    """
    members = addresses_to_watch(host)
    if not members:
        return
    try:
        keepalived_read(host, agent, checks={member.virtual_address.check_url for member in members})
    except OperationRefused as error:
        KeepalivedHost.objects.update_or_create(host=host, defaults={"problem": error.message})


def keepalived_read(
    host: Host, agent: Session, *, checks: Iterable[str], unused: Iterable[str] = ()
) -> Mapping[str, Any]:
    """Read the state of keepalived on a host, store it, and return it.
    `checks` are URLs to check, `unused` are addresses that no other host in the network should have.
    """
    urls = sorted(checks)
    args = {"action": "look", "checks": urls, "unused": list(unused)}
    seen = cleaned(agent.call("keepalived", args, timeout=TIMEOUT_S), urls)
    values = {"seen": seen, "seen_at": timezone.now(), "problem": ""}
    KeepalivedHost.objects.update_or_create(host=host, defaults=values)
    return seen
