"""REST endpoint of the audit log: read only."""

from __future__ import annotations

from django.db.models import QuerySet

from panel.api.base import Resource
from panel.audit import selectors
from panel.audit.models import AuditEntry
from panel.audit.serializers import AuditEntrySerializer


class Audit(Resource):
    """Recorded changes. Administrators see all; others see changes of their teams' objects and their own actions."""

    model = AuditEntry
    serializer_class = AuditEntrySerializer
    filter_fields = {
        "action": ["exact", "in", "icontains"],
        "actor_label": ["exact", "in"],
        "object_type": ["exact", "in"],
        "object_id": ["exact"],
        "object_label": ["exact", "icontains"],
        "request_id": ["exact"],
        "at": ["gte", "lte"],
    }
    ordering_fields = ("id", "at")
    ordering = "-id"

    def rows(self) -> QuerySet[AuditEntry]:
        return selectors.audit_visible(self.actor)
