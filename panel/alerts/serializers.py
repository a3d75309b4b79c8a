"""Serializer of alerts."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from panel.alerts.kinds import SUBJECTS


class AlertSerializer(serializers.Serializer[Any]):
    status = serializers.CharField(help_text="Kind of the alert for programs, for example unreachable or drifted.")
    label = serializers.CharField(help_text="Kind of the alert, as a label for people.")  # type: ignore[assignment]
    kind = serializers.ChoiceField(
        choices=sorted(SUBJECTS), source="subject", help_text="Kind of the object in `title`."
    )
    title = serializers.CharField()
    detail = serializers.CharField(allow_blank=True)
    page = serializers.CharField(source="url", help_text="The page of the panel that resolves the alert.")
    at = serializers.DateTimeField(allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, object]:
        """Return an alert as JSON values.
        Lists have hundreds of alerts, so this method avoids Django REST framework's slower loop over the fields.
        """
        at = self.fields["at"]
        return {
            "status": str(instance.status),
            "label": str(instance.label),
            "kind": instance.subject,
            "title": str(instance.title),
            "detail": str(instance.detail),
            "page": instance.url,
            "at": None if instance.at is None else at.to_representation(instance.at),
        }
