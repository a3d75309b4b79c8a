"""Serializers of virtual addresses."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from panel.api.serializers import StrictModelSerializer, StrictSerializer, Truth
from panel.failover.models import VirtualAddress
from panel.failover.selectors import hosts_of, is_changed, state_of


class MemberSerializer(StrictSerializer):
    """A host and its own IP address, by default the address that Paddock connects to."""

    host = serializers.CharField(max_length=63)
    address = serializers.CharField(max_length=45, required=False, allow_blank=True, default="")

    def validate(self, attrs: Any) -> Any:
        if "host" not in attrs:  # in a change: all fields of it are optional otherwise
            raise serializers.ValidationError({"host": "Enter the name of the host."})
        return attrs


class MemberStateSerializer(serializers.Serializer[object]):
    """A host of a virtual address, with its last report.
    `has_address` tells whether the host has the address, null if this is not known now; `check` is empty if the check
    passes.
    """

    host = serializers.CharField(source="member.host.name")
    address = serializers.CharField(source="member.address")
    has_address = serializers.BooleanField(source="holds", allow_null=True)
    check = serializers.CharField()
    problem = serializers.CharField()
    observed_at = serializers.DateTimeField(source="seen.at", allow_null=True, default=None)


class VirtualAddressSerializer(serializers.ModelSerializer[VirtualAddress]):
    """An IP address that keepalived moves to another host when its current host fails.

    `status` is planned (not applied), succeeded, unsure or failed; `status_text` is the status in words. `is_changed`
    tells whether the address differs from the configuration that its hosts use.
    """

    hosts = serializers.SerializerMethodField()
    status = serializers.SerializerMethodField()
    status_text = serializers.SerializerMethodField()
    is_changed = serializers.SerializerMethodField()

    class Meta:
        model = VirtualAddress
        fields = [
            *("name", "address", "check_url", "returns", "router_id", "hosts", "status", "status_text", "is_changed"),
            *("created_at", "updated_at"),
        ]

    def get_hosts(self, row: VirtualAddress) -> list[Any]:
        return list(MemberStateSerializer(hosts_of(row), many=True).data)

    def get_status(self, row: VirtualAddress) -> str:
        return state_of(row).status

    def get_status_text(self, row: VirtualAddress) -> str:
        state = state_of(row)
        return f"{state.label}. {state.detail}"

    def get_is_changed(self, row: VirtualAddress) -> bool:
        return is_changed(row)


class VirtualAddressInput(StrictModelSerializer):
    """Input of a virtual address. `hosts`: at least two, in the order in which they take the address."""

    hosts = MemberSerializer(many=True)

    class Meta:
        model = VirtualAddress
        fields = ["name", "address", "check_url", "returns", "hosts"]


class VirtualAddressChange(VirtualAddressInput):
    """Input to change a virtual address: all fields except the name, each optional."""

    class Meta(VirtualAddressInput.Meta):
        fields = ["address", "check_url", "returns", "hosts"]


class ApplyInput(StrictSerializer):
    replace = Truth(default=False, help_text="True also replaces keepalived files that were edited on a host.")
