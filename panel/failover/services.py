"""Services of virtual addresses. Nothing changes on a host before `virtual_address_apply`."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict
from panel.core.models import version_bump
from panel.failover.models import MAX_ROUTER_ID, VirtualAddress, VirtualAddressHost
from panel.failover.selectors import draft_of, state_of
from panel.hosts.models import Host, HostJob, HostJobKind
from panel.hosts.services.jobs import UNFINISHED, host_job_request

FEWEST_HOSTS, MOST_HOSTS = 2, 8
Members = Sequence[tuple[Host, str]]  # hosts in order, each with its address, "" for the one that Paddock connects to


@transaction.atomic
def virtual_address_create(*, actor: User, hosts: Members, values: Mapping[str, Any]) -> VirtualAddress:
    """Add a virtual address with its hosts.

    `values` are the model fields `name`, `address`, `check_url`, and `returns`. Raises PermissionDenied,
    ValidationError.
    """
    require(actor, Action.ADMINISTER)
    row = VirtualAddress(router_id=_free_router_id(), **values)
    row.full_clean()
    members = _members(row, hosts)
    row.save()
    _store(row, members)
    audit_record(actor=actor, action="virtual_address.create", target=row, after=draft_of(row).as_json())
    return row


@transaction.atomic
def virtual_address_change(
    *,
    actor: User,
    row: VirtualAddress,
    values: Mapping[str, Any],
    hosts: Members | None = None,
    expected_version: int | None = None,
) -> VirtualAddress:
    """Change a virtual address except for its name. Raises PermissionDenied, ValidationError, Conflict."""
    require(actor, Action.ADMINISTER)
    before = draft_of(row).as_json()
    version_bump(row, expected_version)
    for name, value in values.items():
        setattr(row, name, value)
    row.full_clean()
    given = [(member.host, member.address) for member in row.members.all()] if hosts is None else hosts
    members = _members(row, given)
    row.save()
    row.members.all().delete()
    _store(row, members)
    row = VirtualAddress.objects.get(pk=row.pk)
    audit_record(actor=actor, action="virtual_address.update", target=row, before=before, after=draft_of(row).as_json())
    return row


@transaction.atomic
def virtual_address_delete(
    *, actor: User, row: VirtualAddress, forget: bool = False, expected_version: int | None = None
) -> None:
    """Delete a virtual address that no host uses; with `forget`, also an address that its hosts keep using. Raises
    Conflict if hosts use the address and `forget` is not set, or while the address is being changed.
    """
    require(actor, Action.ADMINISTER)
    if row.applied and not forget:
        raise Conflict(_("%s is in use on its hosts. Withdraw the address from the hosts first.") % row.name)
    _refuse_running(row)
    version_bump(row, expected_version)
    audit_record(actor=actor, action="virtual_address.delete", target=row, before=draft_of(row).as_json())
    row.delete()


def virtual_address_apply(*, actor: User, row: VirtualAddress, replace: bool = False) -> HostJob:
    """Request the job that applies the saved configuration of a virtual address to its hosts.

    With `replace`, keepalived files that were edited on a host are replaced too.
    """
    return _requested(actor, row, "apply", replace)


def virtual_address_withdraw(*, actor: User, row: VirtualAddress, replace: bool = False) -> HostJob:
    """Request the job that removes a virtual address from its hosts. Raises Conflict if no host uses the address."""
    if not row.applied and state_of(row).status == "planned":
        raise Conflict(_("%s is not in use on any host.") % row.name)
    return _requested(actor, row, "withdraw", replace)


def _requested(actor: User, row: VirtualAddress, action: str, replace: bool) -> HostJob:
    require(actor, Action.ADMINISTER)
    _refuse_running(row)
    first = row.members.all()[0].host
    params = {"name": row.name, "action": action, "replace": replace}
    return host_job_request(actor=actor, host=first, kind=HostJobKind.VIRTUAL_ADDRESS, params=params)


def _refuse_running(row: VirtualAddress) -> None:
    jobs = HostJob.objects.filter(kind=HostJobKind.VIRTUAL_ADDRESS, status__in=UNFINISHED, params__name=row.name)
    if jobs.exists():
        raise Conflict(_("A job is changing %s on its hosts. Wait until the job ends.") % row.name)


def _free_router_id() -> int:
    used = set(VirtualAddress.objects.values_list("router_id", flat=True))
    free = next((number for number in range(1, MAX_ROUTER_ID + 1) if number not in used), None)
    if free is None:
        raise ApplicationError(
            _("There are already %d virtual addresses, the maximum. Delete a virtual address first.") % MAX_ROUTER_ID
        )
    return free


def _members(row: VirtualAddress, hosts: Members) -> list[VirtualAddressHost]:
    """Validate the chosen hosts of a virtual address; return unsaved rows that connect them with the address.

    Raises ValidationError at the field `hosts`.
    """
    if not FEWEST_HOSTS <= len(hosts) <= MOST_HOSTS:
        words = _("Choose from %(fewest)d to %(most)d hosts.") % {"fewest": FEWEST_HOSTS, "most": MOST_HOSTS}
        raise ValidationError({"hosts": words})
    if len({host.pk for host, _address in hosts}) < len(hosts):
        raise ValidationError({"hosts": _("A host appears twice. Enter each host once.")})
    version = ipaddress.ip_interface(row.address).version
    found: list[VirtualAddressHost] = []
    for position, (host, given) in enumerate(hosts):
        address = given or host.address
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            words = _("Enter the IP address of %(host)s after its name: %(host)s 192.0.2.1")
            raise ValidationError({"hosts": words % {"host": host.name}}) from None
        if parsed.version != version or str(parsed) == row.ip:
            words = _(
                "%(address)s of %(host)s is not valid. Enter an IPv%(version)d address that belongs to this "
                "host, not the virtual address."
            )
            raise ValidationError({"hosts": words % {"address": address, "host": host.name, "version": version}})
        found.append(VirtualAddressHost(host=host, address=str(parsed), position=position))
    if len({member.address for member in found}) < len(found):
        raise ValidationError(
            {"hosts": _("Two hosts have the same IP address. Enter a different address for each host.")}
        )
    return found


def _store(row: VirtualAddress, members: list[VirtualAddressHost]) -> None:
    for member in members:
        member.virtual_address = row
    VirtualAddressHost.objects.bulk_create(members)
