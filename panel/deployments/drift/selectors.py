"""Selectors for the periodic drift check of hosts."""

from __future__ import annotations

from panel.hosts.models import Host, HostStatus


def hosts_to_check() -> list[int]:
    """Return the primary keys of all hosts that are ready and not paused."""
    rows = Host.objects.filter(status=HostStatus.READY, is_paused=False)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def host_to_check(pk: int) -> Host | None:
    """Return a host with the related rows that a connection needs; None if it was deleted or is paused."""
    return Host.objects.select_related("authority", "bastion__authority").filter(pk=pk, is_paused=False).first()
