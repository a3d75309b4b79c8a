"""Serializer of stream servers."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from panel.api.serializers import StrictModelSerializer
from panel.websites.models import Site, StreamRoute, StreamServer
from panel.websites.part_selectors import upstreams_of
from panel.websites.serializers.sites import OfCertificate, OfSite


class StreamRouteSerializer(StrictModelSerializer):
    """A TLS server name, and the upstream that gets the connections of clients that request it."""

    name = serializers.CharField(max_length=255, help_text="`mail.example.com` or `*.example.com`.")
    upstream = serializers.CharField(
        source="upstream.name", max_length=63, help_text="Name of an upstream of the site."
    )

    class Meta:
        model = StreamRoute
        fields = ["name", "upstream"]


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
    certificate = OfCertificate(
        slug_field="name",
        allow_null=True,
        required=False,
        help_text="Certificate for TLS connections of clients; null: no TLS. Only for TCP.",
    )
    upstream_tls = serializers.BooleanField(
        required=False, help_text="Whether the web server connects to the upstream with TLS. Only for TCP."
    )
    upstream_tls_name = serializers.CharField(
        required=False, allow_blank=True, max_length=253, help_text="Name that the upstream's certificate must have."
    )
    upstream_tls_ca = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=400,
        help_text="PEM file on the host with the authority of the upstream's certificate; empty: every certificate is "
        "accepted.",
    )
    routes = StreamRouteSerializer(
        many=True,
        required=False,
        help_text="Upstreams by the name that a TLS client requests. TLS is passed on unchanged; `upstream` gets all "
        "other connections.",
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
            "certificate",
            "upstream_tls",
            "upstream_tls_name",
            "upstream_tls_ca",
            "routes",
            "created_at",
            "updated_at",
        ]
        read_only_fields = ["id", "created_at", "updated_at"]

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Replace the name of the upstream by the upstream of the stream server's site."""
        if "routes" in attrs:
            routes = [{"name": row["name"], "upstream": row["upstream"]["name"]} for row in attrs["routes"]]
            attrs = attrs | {"routes": routes}
        if "upstream" not in attrs:
            return attrs
        site: Site = self.instance.site if isinstance(self.instance, StreamServer) else attrs["site"]
        name = attrs["upstream"]["name"]
        found = upstreams_of(site).filter(name=name).first()
        if found is None:
            raise serializers.ValidationError({"upstream": f"The site {site} has no upstream named “{name}”."})
        return attrs | {"upstream": found}
