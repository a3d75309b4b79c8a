"""Serializer of stream servers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from panel.api.serializers import StrictModelSerializer
from panel.websites.models import Site, StreamServer
from panel.websites.part_selectors import upstreams_of
from panel.websites.serializers.sites import OfSite


class StreamServerSerializer(StrictModelSerializer):
    site = OfSite()
    upstream = serializers.CharField(
        source="upstream.name", max_length=63, help_text="Name of an upstream of the site."
    )
    allowed = serializers.ListField(
        child=serializers.CharField(max_length=100),
        required=False,
        help_text="Addresses and networks whose clients may connect; empty: every client.",
    )

    class Meta:
        model = StreamServer
        fields = [
            "id",
            "site",
            "name",
            "protocol",
            "address",
            "port",
            "upstream",
            "connect_timeout_s",
            "session_timeout_s",
            "proxy_protocol",
            "allowed",
            "created_at",
            "updated_at",
        ]
        read_only_fields = ["id", "created_at", "updated_at"]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Replace the name of the upstream by the upstream of the stream server's site."""
        if "upstream" not in attrs:
            return attrs
        site: Site = self.instance.site if isinstance(self.instance, StreamServer) else attrs["site"]
        name = attrs["upstream"]["name"]
        found = upstreams_of(site).filter(name=name).first()
        if found is None:
            raise serializers.ValidationError({"upstream": f"The site {site} has no upstream named “{name}”."})
        return attrs | {"upstream": found}
