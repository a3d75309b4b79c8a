"""Serializers of certificates. Private keys are write-only, except in an encrypted export."""

from __future__ import annotations

from rest_framework import serializers

from panel.api.serializers import StrictSerializer, TeamField
from panel.websites.models import Certificate


class CertificateSerializer(serializers.ModelSerializer[Certificate]):
    team = serializers.CharField(source="team.slug", read_only=True)
    names = serializers.ListField(child=serializers.CharField(), read_only=True)
    host = serializers.CharField(
        source="host.name",
        read_only=True,
        allow_null=True,
        default=None,
        help_text="Host with the certificate file; null without a file on a host",
    )
    certificate_path = serializers.CharField(read_only=True, help_text="Path of the certificate file on the host")
    faults = serializers.ListField(
        source="fault_words",
        child=serializers.CharField(),
        read_only=True,
        help_text="Reasons why browsers refuse the certificate although it is valid",
    )

    class Meta:
        model = Certificate
        fields = [
            "id",
            "name",
            "team",
            "source",
            "host",
            "certificate_path",
            "names",
            "issuer",
            "fingerprint",
            "not_before",
            "not_after",
            "faults",
            "certificate_pem",
            "created_at",
            "updated_at",
        ]


class CertificateUpload(StrictSerializer):
    team = TeamField()
    name = serializers.CharField(max_length=63)
    certificate_pem = serializers.CharField(max_length=200_000)
    private_key_pem = serializers.CharField(max_length=50_000, write_only=True)


class CertificateReplace(StrictSerializer):
    certificate_pem = serializers.CharField(max_length=200_000)
    private_key_pem = serializers.CharField(max_length=50_000, write_only=True)


class CertificateExport(StrictSerializer):
    password = serializers.CharField(min_length=12, max_length=1000, trim_whitespace=False, write_only=True)


class CertificateExported(StrictSerializer):
    pkcs12 = serializers.CharField(help_text="PKCS #12 file, in base64")


class CertificateSelfSign(StrictSerializer):
    team = TeamField()
    name = serializers.CharField(max_length=63)
    names = serializers.ListField(child=serializers.CharField(max_length=253), allow_empty=False, max_length=100)
    days = serializers.IntegerField(required=False, min_value=1, max_value=3650)
