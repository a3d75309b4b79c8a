"""Change of a virtual address on its hosts: every host tests its new file first, then all hosts use their files.

If a host refuses its file, or no host has the address afterwards, every host gets its former file back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.core.errors import ApplicationError
from panel.failover.models import KeepalivedHost, VirtualAddress
from panel.failover.observing import keepalived_read
from panel.failover.reading import Observation, digest, observation
from panel.failover.selectors import applied_of, applied_on, draft_of, keepalived_of
from panel.hosts.locks import HeldLocks, host_locks
from panel.hosts.models import Host, HostJob
from panel.hosts.services.hosts import refuse_paused
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.rendering.keepalived import AddressSpec, host_file, instance_line

PUT_TIMEOUT_S = 90.0
SETTLE_S, FIRST_S, POLL_S = 20.0, 6.0, 0.3
_NO_INTERFACE = gettext_lazy("No network interface of the host has the address %s.")


@dataclass
class Change:
    """One change of a virtual address on its hosts.

    `draft` is the new configuration (None to withdraw), `former` the applied one. `texts` are the new keepalived files
    by host, `formers` the files to restore. `begun` are the hosts that may use the new file already. `silent` are hosts
    that lose the address and do not respond; the change skips these hosts. `checks` are the URLs that decide which host
    may have an address.
    """

    row: VirtualAddress
    draft: AddressSpec | None
    former: AddressSpec | None
    replace: bool
    hosts: list[Host]
    texts: dict[Host, str] = field(default_factory=dict)
    formers: dict[Host, str] = field(default_factory=dict)
    begun: list[Host] = field(default_factory=list)
    silent: list[Host] = field(default_factory=list)
    checks: set[str] = field(default_factory=set)

    @property
    def spec(self) -> AddressSpec:
        """Configuration that this change is about: the new configuration. For a withdrawal, the applied configuration,
        or the saved one if none was applied.
        """
        return self.draft or self.former or draft_of(self.row)

    @property
    def is_new(self) -> bool:
        """Return whether the change applies an IP address that none of the hosts has yet."""
        return self.draft is not None and (self.former is None or self.former.ip != self.draft.ip)

    def uses(self, host: Host) -> bool:
        return self.draft is not None and any(peer.host == host.name for peer in self.draft.peers)


def virtual_address_job(job: HostJob) -> dict[str, object]:
    """Carry out the job that applies or withdraws a virtual address; return its result.
    Raises ApplicationError; its message names hosts whose former file could not be restored.
    """
    row = VirtualAddress.objects.get(name=job.params["name"])
    change = _change(row, withdraw=job.params["action"] == "withdraw", replace=job.params["replace"])
    refuse_paused(change.hosts)
    holder = f"virtual address {row.name} {job.uuid}"
    with host_locks(dict.fromkeys(change.hosts, holder)) as locks:
        _look(change)
        locks.extend()
        _each(change, _test)
        locks.extend()
        try:
            _each(change, _put)
            holder_name = _verified(change, locks)
        except ApplicationError as error:
            raise ApplicationError(f"{error.message}\n{_undone(change)}") from error
    applied = change.draft.as_json() if change.draft else None
    VirtualAddress.objects.filter(pk=row.pk).update(applied=applied)
    silent = {"without_response": [host.name for host in change.silent]} if change.silent else {}
    return {"hosts": [host.name for host in change.hosts], "on": holder_name, **silent}


def _change(row: VirtualAddress, *, withdraw: bool, replace: bool) -> Change:
    draft, former = None if withdraw else draft_of(row), applied_of(row)
    names = [peer.host for spec in (draft, former) if spec for peer in spec.peers]
    order = {name: number for number, name in reversed(list(enumerate(names)))}
    wanted = Q(name__in=names) | Q(keepalived__text__contains=instance_line(row.name))
    rows = Host.objects.filter(wanted).select_related("bastion")
    found = sorted(rows, key=lambda host: (order.get(host.name, len(order)), host.name))
    return Change(row, draft, former, replace, found)


def _look(change: Change) -> None:
    """Read the state of keepalived on every host and render the host's new file; change nothing on the hosts.
    Raises one ApplicationError that names all problems.
    """
    unused = [change.spec.ip] if change.is_new else []
    others = [spec for spec in applied_on(change.hosts) if spec.name != change.row.name]
    specs = [*others, change.draft] if change.draft else others
    change.checks = {change.spec.check_url, *(spec.check_url for spec in specs)}
    stored = keepalived_of(change.hosts)
    found: dict[Host, Observation] = {}
    problems: list[str] = []
    for host in change.hosts:
        text = stored[host.pk].text if host.pk in stored else ""
        try:
            with pool.session(target_for(host)) as agent:
                seen = observation(keepalived_read(host, agent, checks=change.checks, unused=unused), text)
        except ApplicationError as error:
            if change.uses(host):
                problems.append(f"{host.name}: {error.message}")
            else:
                change.silent.append(host)
            continue
        found[host] = seen
        missing = [one for one in _own_addresses(specs, host) if one not in seen.addresses]
        problems += [f"{host.name}: {_NO_INTERFACE % one}" for one in missing]
        change.texts[host] = "" if missing else host_file(specs, host.name, seen.addresses)
        former = _former(change, others, host, seen)
        change.formers[host] = text if former is None else former
        problems += [f"{host.name}: {problem}" for problem in _problems(change, host, seen)]
    change.hosts = [host for host in change.hosts if host not in change.silent]
    problems += _taken(change, found)
    _require_passing_check(change, found, problems)
    if problems or not change.hosts:
        raise ApplicationError("\n".join([_("Nothing was changed."), *(problems or [_("No host responds.")])]))


def _former(change: Change, others: list[AddressSpec], host: Host, seen: Observation) -> str | None:
    """Render the host's keepalived file from before this change; None if the host lost an address that the file needs.

    The file is rendered from the configuration before the change. The file on the host is not used, because a killed
    attempt may have changed it.
    """
    specs = [*others, change.former] if change.former else others
    if any(one not in seen.addresses for one in _own_addresses(specs, host)):
        return None
    return host_file(specs, host.name, seen.addresses)


def _taken(change: Change, found: Mapping[Host, Observation]) -> list[str]:
    """Return a problem for each host that found the new address in use by another device in the network.
    Returns [] if one of the hosts in `found` already has the address from a killed attempt of this change.
    """
    for host, seen in found.items():
        text = change.texts[host]
        if text and change.spec.ip in seen.addresses and seen.digest == digest(text):
            return []
    words = _("Another device in the network already has the address %(address)s (hardware address %(hardware)s).")
    return [
        f"{host.name}: {words % {'address': address, 'hardware': hardware}}"
        for host, seen in found.items()
        for address, hardware in seen.neighbours.items()
    ]


def _own_addresses(specs: list[AddressSpec], host: Host) -> list[str]:
    return [peer.address for spec in specs for peer in spec.peers if peer.host == host.name]


def _problems(change: Change, host: Host, seen: Observation) -> list[str]:
    problems = []
    if change.uses(host) and not seen.version:
        problems.append(_("keepalived is not installed. On Debian, run: apt-get install keepalived"))
    if seen.main == "other":
        problems.append(
            _(
                "/etc/keepalived/keepalived.conf on the host does not include Paddock's file. Add this line to the "
                "file: %s"
            )
            % "include /etc/keepalived/paddock.conf"
        )
    if seen.main == "elsewhere":
        problems.append(
            _(
                "keepalived runs with another configuration file than /etc/keepalived/keepalived.conf. "
                "Start keepalived with /etc/keepalived/keepalived.conf."
            )
        )
    # A process that was killed may have written the new file already.
    if seen.edited and not change.replace and seen.digest != digest(change.texts[host]):
        problems.append(
            _(
                "/etc/keepalived/paddock.conf was edited on the host. Choose to replace the file, or undo the edit "
                "on the host."
            )
        )
    return problems


def _require_passing_check(change: Change, found: Mapping[Host, Observation], problems: list[str]) -> None:
    """Append a problem if the check fails on every host, because no host would take the address then."""
    if change.draft is None:
        return
    url = change.draft.check_url
    failing = {host.name: seen.checks[url] for host, seen in found.items() if change.uses(host) and seen.checks[url]}
    if failing and len(failing) == len(change.draft.peers):
        told = "; ".join(f"{name}: {problem}" for name, problem in failing.items())
        problems.append(_("The check %(url)s fails on every host. %(hosts)s") % {"url": url, "hosts": told})


def _each(change: Change, work: Callable[[Change, Host], None]) -> None:
    """Call `work` for each host of a virtual address, standby hosts first, so that the address stays on its host as
    long as possible.

    If no host has the address yet, the order is reversed: the host that should take the address comes first.
    """
    for host in change.hosts if change.is_new else reversed(change.hosts):
        try:
            work(change, host)
        except ApplicationError as error:
            raise ApplicationError(f"{host.name}: {error.message}") from error


def _test(change: Change, host: Host) -> None:
    if change.texts[host]:
        _sent(host, "test", change.texts[host], None)


def _put(change: Change, host: Host) -> None:
    row, _created = KeepalivedHost.objects.get_or_create(host=host)
    change.begun.append(host)
    expected = None if change.replace else [digest(row.text)]
    _sent(host, "put", change.texts[host], expected)
    KeepalivedHost.objects.filter(pk=row.pk).update(text=change.texts[host])
    if change.is_new and host is change.hosts[0]:
        _await_holder(change, host)


def _await_holder(change: Change, host: Host) -> None:
    """Wait up to FIRST_S seconds until `host`, the first host of the address, has taken the new address.
    Other hosts get their files afterwards, even if `host` has not taken the address, because its check may fail.
    """
    deadline = time.monotonic() + FIRST_S
    while time.monotonic() < deadline and change.spec.ip not in _observed(change, host).addresses:
        time.sleep(POLL_S)


def _sent(host: Host, action: str, text: str, expected: list[str] | None) -> None:
    args: dict[str, object] = {"action": action, "text": text}
    if expected is not None:
        args["expected"] = expected
    with pool.session(target_for(host)) as agent:
        agent.call("keepalived", args, timeout=PUT_TIMEOUT_S)


def _verified(change: Change, locks: HeldLocks) -> str:
    """Wait until exactly one host has the address; return the name of this host.

    For a withdrawal, wait until no host has the address, and return "". Raises ApplicationError after SETTLE_S seconds.
    """
    deadline = time.monotonic() + SETTLE_S
    while True:
        locks.extend()
        found = {host: _observed(change, host) for host in change.hosts}
        holders = [host.name for host, seen in found.items() if change.spec.ip in seen.addresses]
        former = change.former.ip if change.former and change.former.ip != change.spec.ip else ""
        left = [host.name for host, seen in found.items() if former in seen.addresses]
        if len(holders) == (1 if change.draft else 0) and not left:
            return "".join(holders)
        if time.monotonic() > deadline:
            raise ApplicationError(_unverified(change, holders, former if left else ""))
        time.sleep(POLL_S)


def _observed(change: Change, host: Host) -> Observation:
    with pool.session(target_for(host)) as agent:
        seen = keepalived_read(host, agent, checks=change.checks)
    return observation(seen, change.texts[host])


def _unverified(change: Change, holders: list[str], left: str) -> str:
    values = {"address": left or change.spec.ip, "seconds": int(SETTLE_S), "hosts": ", ".join(holders)}
    if left or change.draft is None:
        return _("A host still had %(address)s after %(seconds)d seconds.") % values
    if not holders:
        return _("No host took %(address)s within %(seconds)d seconds.") % values
    return _("After %(seconds)d seconds, %(hosts)s still had %(address)s at the same time.") % values


def _undone(change: Change) -> str:
    """Restore the former keepalived files of the hosts that were changed; return sentences about the result."""
    kept, lost = [], []
    for host in change.begun:
        text = change.formers[host]
        try:
            _sent(host, "put", text, None)
        except ApplicationError as error:
            lost.append(f"{host.name}: {error.message}")
        else:
            KeepalivedHost.objects.filter(host=host).update(text=text)
            kept.append(host.name)
    words = [_("Paddock restored the former configuration on %s.") % ", ".join(kept)] if kept else []
    if lost:
        words += [_("These hosts may have the new configuration; apply the address again when they respond:"), *lost]
    return "\n".join(words) or _("Nothing was changed.")
