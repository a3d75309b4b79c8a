"""Serializers of previews."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.api.serializers import StrictSerializer
from panel.previews.models import Preview


class PreviewChangeSerializer(serializers.Serializer[object]):
    """One change of a response. `name` is the name of a changed header. Kind `location`: another location handles the
    request.
    """

    kind = serializers.ChoiceField(choices=["status", "redirect", "header", "content", "location"])
    name = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()


class PreviewDifferenceSerializer(serializers.Serializer[object]):
    """A request to which the live version and the draft respond differently."""

    method = serializers.CharField()
    url = serializers.CharField()
    changes = PreviewChangeSerializer(many=True)


class PreviewSiteSerializer(serializers.Serializer[object]):
    """Result for one site. `logged`: number of requests from its access log; `unlisted`: number of differences that are
    not listed.
    """

    site = serializers.CharField()
    asked = serializers.IntegerField()
    logged = serializers.IntegerField()
    differences = PreviewDifferenceSerializer(many=True)
    unlisted = serializers.IntegerField()
    error = serializers.CharField()
    notes = serializers.ListField(child=serializers.CharField())


class PreviewSerializer(serializers.ModelSerializer[Preview]):
    """A preview of a plan: the differences between the responses of the live version and the draft of its sites."""

    deployment = serializers.UUIDField(source="deployment.uuid", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, allow_null=True, default=None)
    sites = serializers.SerializerMethodField()

    class Meta:
        model = Preview
        fields = [
            "uuid",
            "deployment",
            "status",
            "error",
            "sites",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]

    @extend_schema_field(PreviewSiteSerializer(many=True))
    def get_sites(self, preview: Preview) -> list[dict[str, object]]:
        return list(preview.sites)


class PreviewInput(StrictSerializer):
    deployment = serializers.UUIDField(help_text="UUID of the deployment plan.")
