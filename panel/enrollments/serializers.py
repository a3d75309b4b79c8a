"""Serializers of enrollments. Only the response that creates an enrollment contains the token."""

from __future__ import annotations

from rest_framework import serializers

from panel.api.serializers import StrictModelSerializer, TagsListField, TeamField
from panel.enrollments.models import Enrollment

MOST_HOURS = 720


class EnrollmentSerializer(serializers.ModelSerializer[Enrollment]):
    """An enrollment.

    `hosts` are the names of the hosts that it added; `is_open` tells whether another host can use it.
    """

    tags = TagsListField(read_only=True)
    teams = serializers.SlugRelatedField(slug_field="slug", many=True, read_only=True)  # type: ignore[var-annotated]
    hosts = serializers.SlugRelatedField(slug_field="name", many=True, read_only=True)  # type: ignore[var-annotated]
    created_by = serializers.CharField(source="created_by.username", read_only=True, default=None, allow_null=True)
    is_open = serializers.BooleanField(read_only=True)

    class Meta:
        model = Enrollment
        fields: list[str] = [
            *("id", "created_by", "created_at", "expires_at", "revoked_at", "most_hosts", "used", "is_open"),
            *("username", "tags", "teams", "hosts"),
        ]


class CreatedEnrollmentSerializer(EnrollmentSerializer):
    """A new enrollment with its token, the command to run on a host, and user data for cloud-init."""

    token = serializers.CharField(read_only=True)
    command = serializers.CharField(read_only=True)
    cloud_init = serializers.CharField(read_only=True)

    class Meta(EnrollmentSerializer.Meta):
        fields = [*EnrollmentSerializer.Meta.fields, "token", "command", "cloud_init"]


class EnrollmentInput(StrictModelSerializer):
    hours = serializers.IntegerField(
        required=False, default=1, min_value=1, max_value=MOST_HOURS, help_text="Hours until the enrollment expires."
    )
    tags = TagsListField(required=False)
    teams = TeamField(
        many=True,
        required=False,
        help_text="Only these teams see and use the hosts; an empty list lets every team use the hosts.",
    )

    class Meta:
        model = Enrollment
        fields = ["hours", "most_hosts", "username", "tags", "teams"]
        extra_kwargs = {"username": {"required": False}}
