"""PHP-FPM on a host: read its versions, accounts and pools, and record the state of its pools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from panel.fpm.models import FpmPool
from panel.fpm.reading import Offer, cleaned, offer_of
from panel.fpm.selectors import pools_on
from panel.hosts.models import Host
from panel.hosts.targets import target_for
from panel.remote import pool as connections
from panel.remote.errors import OperationRefused
from panel.remote.pool import Session

TIMEOUT_S = 20.0
PAGE_TIMEOUT_S = 8.0  # somebody waits for the form


def offer(host: Host) -> Offer:
    """Ask a host now for its PHP versions and accounts. Raises RemoteError."""
    return connections.retry_lost(lambda: _offer(host))


def _offer(host: Host) -> Offer:
    with connections.session(target_for(host)) as agent:
        return offer_of(agent.call("fpm", {"action": "look", "accounts": True}, timeout=PAGE_TIMEOUT_S))


def host_observed(host: Host, agent: Session) -> None:
    """Read and record the state of the host's PHP-FPM pools. Called whenever the panel observes the host.

    Raises RemoteError if the host does not respond; if the agent refuses the request, its message is recorded.
    """
    pools = pools_on(host)
    if not pools:
        return
    try:
        pools_read(agent, pools)
    except OperationRefused as error:
        FpmPool.objects.filter(pk__in=[pool.pk for pool in pools]).update(problem=error.message)


def pools_read(agent: Session, pools: Iterable[FpmPool], pid_file: str = "") -> Mapping[str, Any]:
    """Ask the agent for the state of the pools, record it, and return the agent's response. `pid_file`: path of the web
    server's pid file, from which the agent finds the user and group of the web server.
    """
    rows = list(pools)
    asked = [{"version": row.php_version, "name": row.name} for row in rows]
    response = agent.call("fpm", {"action": "look", "pools": asked, "pid_file": pid_file}, timeout=TIMEOUT_S)
    for row in rows:
        values = {"seen": cleaned(response, row.name), "seen_at": timezone.now(), "problem": ""}
        FpmPool.objects.filter(pk=row.pk).update(**values)
    return response
