"""Serializers of ACME accounts, DNS accounts, and automatic HTTPS. They never output keys."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from panel.api.serializers import StrictSerializer, TeamField, Truth
from panel.certificates import limiting
from panel.certificates.choices import Issuer, KeyType, LimitKind, OrderStep, RevocationReason
from panel.certificates.dns.providers import PROVIDERS, DnsKind
from panel.certificates.models import AcmeAccount, AutomaticCertificate, DnsAccount, Order
from panel.certificates.selectors import step_lines
from panel.core.jobs import JobStatus


class AcmeAccountSerializer(serializers.ModelSerializer[AcmeAccount]):
    team = serializers.CharField(source="team.slug", read_only=True)

    class Meta:
        model = AcmeAccount
        fields = [
            "id",
            "name",
            "team",
            "issuer",
            "directory_url",
            "ca_pem",
            "email",
            "eab_key_id",
            "status",
            "url",
            "paused_until",
            "created_at",
            "updated_at",
        ]


class AcmeAccountInput(StrictSerializer):
    team = TeamField()
    name = serializers.CharField(max_length=63)
    issuer = serializers.ChoiceField(choices=Issuer.choices, default=Issuer.LETSENCRYPT)
    email = serializers.CharField(max_length=254, default="", allow_blank=True)
    directory_url = serializers.CharField(max_length=300, default="", allow_blank=True)
    ca_pem = serializers.CharField(max_length=100_000, default="", allow_blank=True)
    eab_key_id = serializers.CharField(max_length=300, default="", allow_blank=True)
    eab_key = serializers.CharField(max_length=1000, default="", allow_blank=True, write_only=True)


class DnsAccountSerializer(serializers.ModelSerializer[DnsAccount]):
    """A DNS account; `settings` are the settings that are not secret."""

    team = serializers.CharField(source="team.slug", read_only=True)
    settings = serializers.SerializerMethodField()

    class Meta:
        model = DnsAccount
        fields = [
            "id",
            "name",
            "team",
            "kind",
            "settings",
            "tested_at",
            "tested_zone",
            "problem",
            "created_at",
            "updated_at",
        ]

    def get_settings(self, account: DnsAccount) -> dict[str, str]:
        shown = {row.name for row in PROVIDERS[account.kind].settings if not row.is_secret}
        return {name: value for name, value in account.values.items() if name in shown}


class DnsAccountInput(StrictSerializer):
    team = TeamField()
    name = serializers.CharField(max_length=63)
    kind = serializers.ChoiceField(choices=DnsKind.choices)
    settings = serializers.DictField(child=serializers.CharField(max_length=1000, allow_blank=True))


class DnsAccountChange(StrictSerializer):
    settings = serializers.DictField(child=serializers.CharField(max_length=1000, allow_blank=True))


class DnsTestInput(StrictSerializer):
    domain = serializers.CharField(max_length=253)


class RevokeInput(StrictSerializer):
    reason = serializers.ChoiceField(choices=RevocationReason.choices, default=RevocationReason.UNSPECIFIED)
    order_new = Truth(default=True)


class OrderStepSerializer(serializers.Serializer[Any]):
    step = serializers.ChoiceField(choices=OrderStep.choices)
    status = serializers.CharField()
    texts = serializers.ListField(child=serializers.CharField())


class SeenSerializer(serializers.Serializer[Any]):
    """Result of checking a listener for one name; `problem` is empty if the listener presented the new certificate and
    chain.
    """

    listener = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    problem = serializers.CharField(allow_blank=True)


class CertificateOrderSerializer(serializers.ModelSerializer[Order]):
    status = serializers.ChoiceField(choices=JobStatus.choices, read_only=True)
    names = serializers.ListField(child=serializers.CharField(), read_only=True)
    seen = SeenSerializer(many=True, read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True, default=None, allow_null=True)
    steps = serializers.SerializerMethodField()

    class Meta:
        model = Order
        fields = [
            "uuid",
            "status",
            "step",
            "names",
            "progress",
            "error",
            "retry_at",
            "seen",
            "steps",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]

    @extend_schema_field(OrderStepSerializer(many=True))
    def get_steps(self, order: Order) -> list[dict[str, object]]:
        return [{"step": line.step, "status": line.status, "texts": list(line.texts)} for line in step_lines(order)]


class RateLimitSerializer(serializers.Serializer[Any]):
    """A rate limit of the certificate authority, with the number of requests that orders of this panel have used."""

    kind = serializers.ChoiceField(choices=LimitKind.choices)
    subject = serializers.CharField(
        help_text="Account, domain, or domain names for which the certificate authority counts the limit."
    )
    used = serializers.IntegerField()
    count = serializers.IntegerField()
    period_s = serializers.IntegerField()
    opens_at = serializers.DateTimeField(help_text="Time of the next possible order.")


class AutomaticHttpsSerializer(serializers.ModelSerializer[AutomaticCertificate]):
    site = serializers.CharField(source="site.name", read_only=True)
    account = serializers.CharField(source="account.name", read_only=True)
    dns = serializers.CharField(source="dns.name", read_only=True, default=None, allow_null=True)
    certificate = serializers.CharField(source="certificate.name", read_only=True, default=None, allow_null=True)
    order = serializers.SerializerMethodField()
    rate_limits = serializers.SerializerMethodField()

    class Meta:
        model = AutomaticCertificate
        fields = [
            "id",
            "site",
            "account",
            "dns",
            "tls_challenges",
            "certificate",
            "key_type",
            "reuse_key",
            "profile",
            "https_port",
            "http3",
            "hsts_max_age_s",
            "next_at",
            "reason",
            "failures",
            "problem",
            "seen_at",
            "order",
            "rate_limits",
            "created_at",
        ]

    @extend_schema_field(RateLimitSerializer(many=True))
    def get_rate_limits(self, automatic: AutomaticCertificate) -> list[dict[str, object]]:
        return [dict(RateLimitSerializer(usage).data) for usage in limiting.of_site(automatic)]

    @extend_schema_field(CertificateOrderSerializer(allow_null=True))
    def get_order(self, automatic: AutomaticCertificate) -> dict[str, object] | None:
        """Return the newest order; null if there is none."""
        order = next(iter(automatic.orders.all()), None)
        return None if order is None else dict(CertificateOrderSerializer(order).data)


class AutomaticHttpsInput(StrictSerializer):
    site = serializers.CharField(max_length=63)
    account = serializers.CharField(max_length=63)
    dns = serializers.CharField(max_length=63, default="", allow_blank=True)
    tls_challenges = Truth(default=False)
    key_type = serializers.ChoiceField(choices=KeyType.choices, default=KeyType.P256)
    reuse_key = Truth(default=False)
    profile = serializers.CharField(max_length=64, default="", allow_blank=True)
    https_port = serializers.IntegerField(default=443, min_value=1, max_value=65535)
    http3 = Truth(default=True)
    hsts_max_age_s = serializers.IntegerField(default=None, allow_null=True, min_value=1, max_value=63_072_000)
