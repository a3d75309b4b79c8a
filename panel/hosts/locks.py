"""Locks that allow one deployment, benchmark or service action per host at a time.

A lock is a database row taken by a conditional update, so it works across processes and machines. The lock of a killed
worker expires with its lease; if the worker ran on this machine, the lock is free immediately. A long job calls
`extend` together with the heartbeat of its claim.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import uuid4

from django.db import transaction
from django.utils import timezone

from panel.core.claims import ORPHANED_AFTER
from panel.core.database import once_it_responds
from panel.core.errors import ApplicationError
from panel.core.owners import is_gone, owner_name
from panel.hosts.models import Host, HostLock

LEASE = timedelta(seconds=120)
# For locks that a heartbeat extends: they expire together with the claim on the job's row.
BEATING_LEASE = ORPHANED_AFTER
POLL_S = 0.2
_HELD = ("holder", "owner", "expires_at")


class HostBusy(ApplicationError):
    """Error: another job (`holder`) has the lock of the host. Nothing was done."""

    def __init__(self, host: Host, holder: str) -> None:
        super().__init__(
            f"{host.name} is busy with {holder or 'another job'}. Wait until it ends, or cancel it.",
            code="host_busy",
            retry=True,
        )
        self.holder = holder or "another job"


class HeldLocks:
    """Locks on several hosts. Each has a holder, a text that names the job uniquely ("deployment 4f1c...").

    The number of queries is independent of the number of locks. Rows are locked in the order of their keys, so workers
    with common hosts cannot deadlock.
    """

    def __init__(self, lease: timedelta = LEASE) -> None:
        self._lease = lease
        self._hosts: set[Host] = set()
        # Unique: a delayed release must not free a lock that this process has taken again for the same job.
        self._owner = f"{owner_name()}:{uuid4().hex[:8]}"

    def take(self, wanted: Mapping[Host, str]) -> dict[Host, HostBusy]:
        """Take the free locks of the `wanted` hosts (host -> holder); return a HostBusy for each of the others. A
        holder can take its own lock again after a crash.
        """
        now = timezone.now()
        with transaction.atomic():
            rows = _locked(wanted)
            missing = [HostLock(host=host) for host in wanted if host.pk not in rows]
            if missing:
                HostLock.objects.bulk_create(missing, ignore_conflicts=True)
                rows = _locked(wanted)
            busy = {host: rows[host.pk].holder for host in wanted if not _is_free(rows[host.pk], wanted[host], now)}
            free = {host: holder for host, holder in wanted.items() if host not in busy}
            held = [
                HostLock(host=host, holder=holder, owner=self._owner, expires_at=now + self._lease)
                for host, holder in free.items()
            ]
            HostLock.objects.bulk_create(held, update_conflicts=True, unique_fields=["host"], update_fields=_HELD)
        self._hosts |= set(free)
        return {host: HostBusy(host, holder) for host, holder in busy.items()}

    def extend(self) -> None:
        """Renew all held locks for another lease. Raises HostBusy if a lock expired and another holder took it."""
        hosts = list(self._hosts)
        with transaction.atomic():
            rows, mine = self._own(hosts)
            HostLock.objects.filter(host__in=mine).update(expires_at=timezone.now() + self._lease)
        for host in hosts:
            if host not in mine and host in self._hosts:  # released in the meantime
                raise HostBusy(host, rows[host.pk].holder if host.pk in rows else "")

    def release(self, hosts: Collection[Host] | None = None) -> None:
        """Release the locks on `hosts`, by default all. If the database is unavailable, a thread releases the locks
        later.
        """
        given = list(self._hosts if hosts is None else hosts)
        self._hosts.difference_update(given)
        if given:
            once_it_responds(lambda: self._release(given), f"release {len(given)} locks of {self._owner}")

    def _release(self, hosts: Collection[Host]) -> None:
        with transaction.atomic():
            _rows, mine = self._own(hosts)
            HostLock.objects.filter(host__in=mine).update(holder="", owner="", expires_at=None)

    def _own(self, hosts: Collection[Host]) -> tuple[dict[int, HostLock], list[Host]]:
        """Return the lock rows of `hosts` by host id, and a list of the hosts whose lock this object still holds.

        The rows are locked in the database until the transaction ends.
        """
        rows = _locked(hosts)
        return rows, [host for host in hosts if host.pk in rows and rows[host.pk].owner == self._owner]


@contextmanager
def host_lock(host: Host, holder: str, *, wait_s: float = 0.0, lease: timedelta = LEASE) -> Iterator[HeldLocks]:
    """Context manager that holds the lock on `host` for `holder`, a text that names the job. Raises HostBusy, with the
    current holder, if the lock is not free within `wait_s` seconds.
    """
    with host_locks({host: holder}, wait_s=wait_s, lease=lease) as locks:
        yield locks


@contextmanager
def host_locks(wanted: Mapping[Host, str], *, wait_s: float = 0.0, lease: timedelta = LEASE) -> Iterator[HeldLocks]:
    """Context manager that holds the locks on all `wanted` hosts (host -> holder), or none. Raises HostBusy, with the
    holder of the first unavailable lock, if they are not free within `wait_s` seconds.
    """
    locks = HeldLocks(lease)
    deadline = time.monotonic() + wait_s
    while busy := locks.take(wanted):
        locks.release()
        if time.monotonic() >= deadline:
            raise next(iter(busy.values()))
        time.sleep(POLL_S)
    try:
        yield locks
    finally:
        locks.release()


def _locked(hosts: Collection[Host]) -> dict[int, HostLock]:
    """Return the HostLock rows of hosts by host id, locked in the database until the transaction ends."""
    rows = HostLock.objects.select_for_update(no_key=True).filter(host__in=list(hosts)).order_by("pk")
    return {row.host_id: row for row in rows}


def _is_free(row: HostLock, holder: str, now: datetime) -> bool:
    return row.holder in ("", holder) or row.expires_at is None or row.expires_at < now or is_gone(row.owner)
