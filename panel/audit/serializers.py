from __future__ import annotations

from rest_framework import serializers

from panel.audit.models import AuditEntry


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    actor = serializers.CharField(source="actor_label", read_only=True)
    before = serializers.DictField(read_only=True, allow_null=True)
    after = serializers.DictField(read_only=True, allow_null=True)

    class Meta:
        model = AuditEntry
        fields = [
            "id",
            "at",
            "actor",
            "token_prefix",
            "address",
            "action",
            "object_type",
            "object_id",
            "object_label",
            "before",
            "after",
            "request_id",
        ]
