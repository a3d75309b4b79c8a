"""Read the state of keepalived on a host, and record it."""

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
    """Read the host's state again if it is a host of a virtual address. Called at each look at the host.

    Raises RemoteError if the host does not respond; a refusal of the agent is recorded.
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
    """Response of the agent, which is recorded too. `unused`: addresses that no other host should have."""
    urls = sorted(checks)
    args = {"action": "look", "checks": urls, "unused": list(unused)}
    seen = cleaned(agent.call("keepalived", args, timeout=TIMEOUT_S), urls)
    values = {"seen": seen, "seen_at": timezone.now(), "problem": ""}
    KeepalivedHost.objects.update_or_create(host=host, defaults=values)
    return seen
