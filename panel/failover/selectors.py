"""Selectors of virtual addresses and of the reports of their hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.failover.models import KeepalivedHost, VirtualAddress, VirtualAddressHost
from panel.failover.reading import Observation, Verdict, observation, verdict
from panel.hosts.edited_files import EditedFile
from panel.hosts.models import Host
from panel.hosts.selectors import hosts_visible
from panel.rendering.keepalived import AddressSpec, Peer, address_spec, instance_line

ACTIONS = ("apply", "withdraw")
FILE = "/etc/keepalived/paddock.conf"


def virtual_addresses_visible(user: User) -> QuerySet[VirtualAddress]:
    """Select the virtual addresses, except those with a host that the user cannot see."""
    members = VirtualAddressHost.objects.select_related("host__keepalived")
    rows = VirtualAddress.objects.prefetch_related(Prefetch("members", members))
    if user.is_admin and user.is_active:
        return rows
    hidden = VirtualAddressHost.objects.exclude(host__in=hosts_visible(user).values("pk"))
    return rows.exclude(pk__in=hidden.values("virtual_address")) if user.is_active else rows.none()


def draft_of(row: VirtualAddress) -> AddressSpec:
    """Return the saved configuration of a virtual address, which would be applied now."""
    peers = tuple(Peer(member.host.name, member.address) for member in row.members.all())
    return AddressSpec(row.name, row.address, row.router_id, row.check_url, row.returns, peers)


def applied_of(row: VirtualAddress) -> AddressSpec | None:
    return address_spec(row.applied) if row.applied else None


def applied_on(hosts: Iterable[Host]) -> list[AddressSpec]:
    """Return the applied configurations of all virtual addresses that involve at least one of these hosts."""
    names = {host.name for host in hosts}
    specs = [applied_of(row) for row in VirtualAddress.objects.filter(applied__isnull=False)]
    return [spec for spec in specs if spec and any(peer.host in names for peer in spec.peers)]


def is_changed(row: VirtualAddress) -> bool:
    """Return whether the saved configuration of a virtual address differs from the applied configuration."""
    return row.applied != draft_of(row).as_json()


def observed(host: Host) -> Observation | None:
    """Return the last report of the host about keepalived; None if the host has not reported yet."""
    found = getattr(host, "keepalived", None)
    return observation(found.seen, found.text, found.seen_at) if found and found.seen else None


def states_of(rows: Sequence[VirtualAddress]) -> list[Verdict]:
    """Return the states of the given virtual addresses, in the same order, from the current reports of their hosts."""
    specs = [applied_of(row) for row in rows]
    names = {peer.host for spec in specs if spec for peer in spec.peers}
    now = timezone.now()
    current: dict[str, Observation] = {}
    for host in Host.objects.filter(name__in=names).select_related("keepalived") if names else []:
        seen = observed(host)
        if seen is not None and seen.is_current(now):
            current[host.name] = seen
    written = KeepalivedHost.objects.exclude(text="").values_list("host__name", "text")
    texts = dict(written) if rows else {}
    return [_state(spec, current, _left_over(row, spec, texts)) for row, spec in zip(rows, specs, strict=True)]


def _left_over(row: VirtualAddress, spec: AddressSpec | None, texts: Mapping[str, str]) -> list[str]:
    """Return the names of hosts whose keepalived file still has this address, although it was removed from the host.
    The hosts did not respond when the address was removed. `texts` maps names of hosts to their files.
    """
    names = {peer.host for peer in spec.peers} if spec else set()
    line = instance_line(row.name)
    return sorted(name for name, text in texts.items() if name not in names and line in text)


def _state(spec: AddressSpec | None, current: Mapping[str, Observation], left_over: list[str]) -> Verdict:
    if left_over:
        words = _(
            "These hosts still have the configuration of the address: %s. Apply or withdraw the address "
            "again when they respond."
        )
        return Verdict("unsure", _("Left on a host"), words % ", ".join(left_over))
    if spec is None:
        return Verdict("planned", _("Not applied"), _("No host has the address before you apply it."))
    return verdict(spec.ip, spec.check_url, {peer.host: current.get(peer.host) for peer in spec.peers})


def state_of(row: VirtualAddress) -> Verdict:
    return states_of([row])[0]


@dataclass(frozen=True)
class HostState:
    """State of one host of a virtual address, for its page.

    `holds` tells whether the host has the address; None if that is not known now.
    """

    member: VirtualAddressHost
    seen: Observation | None
    holds: bool | None
    check: str  # problem of the health check; "" if it passes
    problem: str
    text: str


def hosts_of(row: VirtualAddress) -> list[HostState]:
    """Return the states of the hosts of a virtual address, in the order in which the hosts take the address."""
    now = timezone.now()
    found = []
    for member in row.members.all():
        seen, stored = observed(member.host), getattr(member.host, "keepalived", None)
        current = seen if seen and seen.is_current(now) else None
        found.append(
            HostState(
                member,
                seen,
                row.ip in current.addresses if current else None,
                seen.checks.get(row.check_url, "") if seen else "",
                stored.problem if stored else "",
                stored.text if stored else "",
            )
        )
    return found


def keepalived_edited(user: User) -> list[EditedFile]:
    """Return the hosts' keepalived files that were edited or deleted outside of Paddock, for the page of drift."""
    now = timezone.now()
    found: dict[int, EditedFile] = {}
    for row in virtual_addresses_visible(user):
        for member in row.members.all():
            seen, stored = observed(member.host), getattr(member.host, "keepalived", None)
            if seen is None or not seen.edited or not seen.is_current(now) or stored is None or not stored.text:
                continue
            url, is_deleted = reverse("failover:detail", args=[row.name]), not seen.digest
            edited = EditedFile(FILE, member.host.name, row.name, url, stored.seen_at, is_deleted)
            found.setdefault(member.host_id, edited)
    return list(found.values())


def addresses_to_watch(host: Host) -> list[VirtualAddressHost]:
    return list(VirtualAddressHost.objects.filter(host=host).select_related("virtual_address"))


def keepalived_of(hosts: Iterable[Host]) -> dict[int, KeepalivedHost]:
    return {row.host_id: row for row in KeepalivedHost.objects.filter(host__in=list(hosts))}


def job_params(host: Host, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Validate and return the parameters of a job for a virtual address: {"name", "action": apply | withdraw,
    "replace"}. Raises ValidationError.
    """
    if not {"name", "action"} <= set(params) <= {"name", "action", "replace"} or params["action"] not in ACTIONS:
        raise ValidationError({"params": _("Set the name of the virtual address and the action: apply or withdraw.")})
    if not VirtualAddress.objects.filter(name=params["name"], members__host=host).exists():
        raise ValidationError({"name": _("The host %s has no virtual address with this name.") % host.name})
    return {"name": params["name"], "action": params["action"], "replace": params.get("replace") is True}
