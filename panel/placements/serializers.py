"""Serializers of placements."""

from __future__ import annotations

from rest_framework import serializers

from panel.api.serializers import StrictSerializer, TagsListField
from panel.placements.models import Placement


class PlacementSerializer(serializers.ModelSerializer[Placement]):
    """A site that runs on every host with all of `tags`. `copies` are the names of its copies."""

    site = serializers.CharField(source="site.name", read_only=True)
    tags = TagsListField(read_only=True)
    values = serializers.DictField(
        read_only=True,
        help_text="Values by host and place: {host: {JSON pointer into the site's definition: value}}.",
    )
    copies = serializers.SerializerMethodField()

    class Meta:
        model = Placement
        fields = ["site", "tags", "values", "copies", "created_at", "updated_at"]

    def get_copies(self, placement: Placement) -> list[str]:
        return [copy.site.name for copy in placement.copies.all()]


class PlacementInput(StrictSerializer):
    """Input of a placement: the site by name, the tags of its hosts, and the fields of the site that have another value
    on single hosts.
    """

    site = serializers.CharField(max_length=63)
    tags = TagsListField()
    values = serializers.DictField(
        required=False,
        help_text=(
            "Values by host and place: {host: {JSON pointer into the site's definition: "
            "value}}. They replace the former values."
        ),
    )


class PlacementsPlanInput(StrictSerializer):
    sites = serializers.ListField(
        child=serializers.CharField(max_length=63),
        required=False,
        help_text="Names of the sites whose copies Paddock deploys; omit the field for all sites.",
    )


class PlacementsPlannedSerializer(serializers.Serializer[object]):
    """Planned deployments by UUID, in two batches to confirm. `deploy` deploys copies; `leave` removes copies from
    hosts that lost the tags.
    """

    deploy = serializers.ListField(child=serializers.UUIDField())
    leave = serializers.ListField(child=serializers.UUIDField())
    problems = serializers.DictField(
        child=serializers.CharField(), help_text="Hosts that Paddock left out, with the reasons."
    )
