"""Reads for checks of drift."""

from __future__ import annotations

from panel.hosts.models import Host, HostStatus


def hosts_to_check() -> list[int]:
    """Keys of the hosts that responded last and are not paused."""
    rows = Host.objects.filter(status=HostStatus.READY, is_paused=False)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def host_to_check(pk: int) -> Host | None:
    """The host with what connecting to it needs; None if it was deleted."""
    return Host.objects.select_related("authority", "bastion__authority").filter(pk=pk, is_paused=False).first()
