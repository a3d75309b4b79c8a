"""At most one deployment, benchmark or service action touches a host at a time.

The lock is a row that is taken by a conditional update, so it holds across processes and machines. It expires, so
that a worker that died does not keep it; whoever holds it for long calls `extend` with its heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from panel.core.errors import ApplicationError
from panel.hosts.models import Host, HostLock

LEASE = timedelta(seconds=120)
POLL_S = 0.2


class HostBusy(ApplicationError):
    """Somebody else holds the host; nothing was done."""

    def __init__(self, host: Host, holder: str) -> None:
        super().__init__(
            f"{host.name} is busy with {holder or 'something else'}. Wait until that has ended, or cancel it.",
            code="host_busy",
            retry=True,
        )


@dataclass(frozen=True)
class HeldLock:
    host: Host
    holder: str

    def extend(self) -> None:
        """Holds the lock for another lease. HostBusy when it expired and somebody else has it now."""
        held = HostLock.objects.filter(host=self.host, holder=self.holder)
        if not held.update(expires_at=timezone.now() + LEASE):
            raise HostBusy(self.host, _holder(self.host))


@contextmanager
def host_lock(host: Host, holder: str, *, wait_s: float = 0.0) -> Iterator[HeldLock]:
    """Holds `host` for `holder` (words for a person, unique to the work: "deployment 4f1c..."), at most `wait_s`
    seconds from now. HostBusy names who has it. The same holder may take its own lock again, after a crash."""
    deadline = time.monotonic() + wait_s
    while not _take(host, holder):
        if time.monotonic() >= deadline:
            raise HostBusy(host, _holder(host))
        time.sleep(POLL_S)
    try:
        yield HeldLock(host, holder)
    finally:
        HostLock.objects.filter(host=host, holder=holder).update(holder="", expires_at=None)


def _take(host: Host, holder: str) -> bool:
    now = timezone.now()
    free = Q(holder="") | Q(holder=holder) | Q(expires_at__isnull=True) | Q(expires_at__lt=now)
    rows = HostLock.objects.filter(host=host)
    if rows.filter(free).update(holder=holder, expires_at=now + LEASE):
        return True
    if rows.exists():
        return False
    HostLock.objects.get_or_create(host=host)
    return bool(rows.filter(free).update(holder=holder, expires_at=now + LEASE))


def _holder(host: Host) -> str:
    return HostLock.objects.filter(host=host).values_list("holder", flat=True).first() or ""
