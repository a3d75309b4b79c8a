"""What needs attention as JSON."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from panel.notices.concerns import SUBJECTS


class ConcernSerializer(serializers.Serializer[Any]):
    status = serializers.CharField(help_text="What is the matter, as a word for programs: unreachable, drifted, …")
    label = serializers.CharField(help_text="The same for a person.")  # type: ignore[assignment]
    kind = serializers.ChoiceField(choices=sorted(SUBJECTS), source="subject", help_text="What `title` names.")
    title = serializers.CharField()
    detail = serializers.CharField(allow_blank=True)
    page = serializers.CharField(source="url", help_text="The panel's page where it is dealt with.")
    at = serializers.DateTimeField(allow_null=True)
