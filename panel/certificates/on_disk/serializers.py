"""Serializers of certificates on hosts' disks."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.certificates.models import CertificateReading
from panel.certificates.on_disk.selectors import KEEPERS, Line
from panel.hosts.models import Engine


class NamerSerializer(serializers.Serializer[Any]):
    """A configuration file of a web server that names the certificate."""

    engine = serializers.ChoiceField(choices=Engine.choices)
    path = serializers.CharField()


class HostCertificateSerializer(serializers.Serializer[Line]):
    id = serializers.IntegerField(source="row.pk")
    host = serializers.CharField(source="row.host.name")
    path = serializers.CharField(source="row.path")
    names = serializers.ListField(source="row.names", child=serializers.CharField())
    subject = serializers.CharField(source="row.subject")
    issuer = serializers.CharField(source="row.issuer")
    fingerprint = serializers.CharField(
        source="row.fingerprint", help_text="SHA-256 of the certificate, in hexadecimal digits."
    )
    not_before = serializers.DateTimeField(source="row.not_before")
    not_after = serializers.DateTimeField(source="row.not_after")
    named_in = serializers.SerializerMethodField()
    managed_by = serializers.ChoiceField(
        source="keeper.kind",
        choices=KEEPERS,
        default=None,
        allow_null=True,
        help_text=(
            "Management of the certificate: automatic (automatic HTTPS renews the certificate), uploaded, "
            "self_signed, or acme (Paddock deployed the certificate and does not renew it), host (a program "
            "on the host renews the certificate, and Paddock reads it), deployed (Paddock deployed the "
            "certificate, which was then deleted in the panel), or null (Paddock does not manage the "
            "certificate)."
        ),
    )
    certificate = serializers.CharField(source="keeper.certificate.name", default=None, allow_null=True)
    site = serializers.SerializerMethodField()
    observed_at = serializers.DateTimeField(source="row.host.certificate_reading.at", allow_null=True)

    @extend_schema_field(NamerSerializer(many=True))
    def get_named_in(self, line: Line) -> list[dict[str, str]]:
        return [{"engine": engine, "path": path} for engine, path in line.row.named_in]

    def get_site(self, line: Line) -> str | None:
        return (line.keeper.site or None) if line.keeper else None


class SkippedSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    why = serializers.CharField()


class CertificateReadingSerializer(serializers.ModelSerializer[CertificateReading]):
    host = serializers.CharField(source="host.name", read_only=True)
    at = serializers.DateTimeField(read_only=True, help_text="Time of the last successful reading of the certificates.")
    problem = serializers.CharField(
        read_only=True, help_text="Reason why the last reading failed; empty if it succeeded."
    )
    is_complete = serializers.BooleanField(
        read_only=True, help_text="False if the list is not complete because the agent reached a limit."
    )
    skipped = SkippedSerializer(many=True, read_only=True)

    class Meta:
        model = CertificateReading
        fields = ["id", "host", "at", "tried_at", "problem", "is_complete", "skipped"]
