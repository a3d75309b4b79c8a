"""Serializers of allowances."""

from __future__ import annotations

from rest_framework import serializers

from panel.accounts.models import Team
from panel.api.serializers import StrictSerializer
from panel.hosts.models import Host
from panel.websites.models import Allowance, AllowanceKind


class AllowanceSerializer(serializers.ModelSerializer[Allowance]):
    team = serializers.CharField(source="team.slug", default=None, allow_null=True, read_only=True)
    host = serializers.CharField(source="host.name", default=None, allow_null=True, read_only=True)
    granted_by = serializers.CharField(source="granted_by.username", default=None, allow_null=True, read_only=True)

    class Meta:
        model = Allowance
        fields = ["id", "kind", "value", "team", "host", "note", "granted_by", "created_at", "updated_at"]


class AllowanceInput(StrictSerializer):
    kind = serializers.ChoiceField(choices=AllowanceKind.choices)
    value = serializers.CharField(
        max_length=300,
        help_text="name: a.example, *.a.example; address and default: 127.0.0.1:80, *:80; service: 127.0.0.1:3000, "
        "127.0.0.1:3000-3099, 127.0.0.1:*, unix:/run/app.sock, unix:/run/shop/*.",
    )
    team = serializers.SlugRelatedField(
        slug_field="slug",
        queryset=Team.objects.all(),
        required=False,
        allow_null=True,
        help_text="Team that may use the name, address, or service; null lets every team use a service.",
    )
    host = serializers.SlugRelatedField(
        slug_field="name",
        queryset=Host.objects.all(),
        required=False,
        allow_null=True,
        help_text="Host of the name, address, or service; null for every host. A service needs a host.",
    )
    note = serializers.CharField(max_length=300, required=False, allow_blank=True)
