"""Deletion of old entries of the audit log. `PADDOCK_KEEP_AUDIT_DAYS` is the age limit in days; 0 keeps all entries."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.utils import timezone

from panel.audit.models import AuditEntry

AT_ONCE = 5000


def old_forget(now: dt.datetime | None = None) -> int:
    """Delete at most AT_ONCE entries of the audit log that are older than KEEP_AUDIT_DAYS; return the number of deleted
    entries.
    """
    if not settings.KEEP_AUDIT_DAYS:
        return 0
    before = (now or timezone.now()) - dt.timedelta(days=settings.KEEP_AUDIT_DAYS)
    old = list(AuditEntry.objects.filter(at__lt=before).order_by("at").values_list("pk", flat=True)[:AT_ONCE])
    AuditEntry.objects.filter(pk__in=old).delete()
    return len(old)
