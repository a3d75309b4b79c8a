"""Delete old jobs of hosts, after the same time as deployments (`PADDOCK_KEEP_DEPLOYMENTS_DAYS`), and old readings of
hosts' resources.
"""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.utils import timezone

from panel.hosts.models import HostJob, HostReading

AT_ONCE = 1000
KEEP_READINGS = dt.timedelta(days=14)


def old_forget(now: dt.datetime | None = None) -> int:
    """Delete host jobs that ended more than KEEP_DEPLOYMENTS_DAYS ago, at most AT_ONCE of them; return their number."""
    if not settings.KEEP_DEPLOYMENTS_DAYS:
        return 0
    before = (now or timezone.now()) - dt.timedelta(days=settings.KEEP_DEPLOYMENTS_DAYS)
    old = list(HostJob.objects.filter(finished_at__lt=before).order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    HostJob.objects.filter(pk__in=old).delete()
    return len(old)


def readings_forget(now: dt.datetime | None = None) -> int:
    """Delete readings of hosts' resources older than KEEP_READINGS; return their number."""
    deleted, _by_model = HostReading.objects.filter(at__lt=(now or timezone.now()) - KEEP_READINGS).delete()
    return deleted
