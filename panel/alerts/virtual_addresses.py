"""Alerts about virtual addresses that no host has, that several hosts have, or that no other host could take over."""

from __future__ import annotations

from django.urls import reverse

from panel.accounts.models import User
from panel.alerts.kinds import Alert
from panel.alerts.presence import found_in
from panel.failover.models import VirtualAddress
from panel.failover.selectors import states_of, virtual_addresses_visible


@found_in(lambda hour: VirtualAddress.objects.all())
def virtual_address_alerts(user: User, most: int) -> list[Alert]:
    rows = list(virtual_addresses_visible(user))
    found = [
        Alert(
            state.status,
            state.label,
            "virtual_address",
            row.name,
            state.detail,
            reverse("failover:detail", args=[row.name]),
        )
        for row, state in zip(rows, states_of(rows), strict=True)
        if state.status == "failed" or (state.status == "unsure" and not _is_paused(row))
    ]
    return found[:most]


def _is_paused(row: VirtualAddress) -> bool:
    """Return whether any host of the virtual address is paused for maintenance. The panel does not observe paused
    hosts.
    """
    return any(member.host.is_paused for member in row.members.all())
