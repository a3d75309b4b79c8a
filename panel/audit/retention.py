"""Forget old entries of the audit trail. `PADDOCK_KEEP_AUDIT_DAYS` sets the time; 0 keeps everything."""

from __future__ import annotations

import datetime as dt

from django.conf import settings
from django.utils import timezone

from panel.audit.models import AuditEntry

AT_ONCE = 5000


def old_forget(now: dt.datetime | None = None) -> int:
    """Delete at most AT_ONCE old entries; return their number."""
    if not settings.KEEP_AUDIT_DAYS:
        return 0
    before = (now or timezone.now()) - dt.timedelta(days=settings.KEEP_AUDIT_DAYS)
    old = list(AuditEntry.objects.filter(at__lt=before).order_by("at").values_list("pk", flat=True)[:AT_ONCE])
    AuditEntry.objects.filter(pk__in=old).delete()
    return len(old)
