"""REST endpoints of virtual addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource, all_or_none
from panel.api.problems import parameter_error
from panel.api.serializers import EmptySerializer
from panel.failover import services
from panel.failover.models import VirtualAddress
from panel.failover.selectors import virtual_addresses_visible
from panel.failover.serializers import (
    ApplyInput,
    VirtualAddressChange,
    VirtualAddressInput,
    VirtualAddressSerializer,
)
from panel.hosts.api import queued
from panel.hosts.selectors import hosts_visible
from panel.hosts.serializers import HostJobSerializer

FORGET = OpenApiParameter(
    "forget", bool, description="Delete the virtual address in the panel even if hosts still use the address."
)


class VirtualAddresses(Resource):
    """Virtual addresses: IP addresses that keepalived moves to another host when their current host fails.

    Only administrators change them.
    """

    model = VirtualAddress
    serializer_class = VirtualAddressSerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    writes = Action.ADMINISTER
    versioned = True
    filter_fields = {"name": ["exact", "in"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    parameters = {"destroy": {"forget"}}
    dry_run_actions = {"create", "partial_update", "destroy"}

    def rows(self) -> QuerySet[VirtualAddress]:
        return virtual_addresses_visible(self.actor)

    def _hosts(self, given: Iterable[Mapping[str, Any]]) -> list[Any]:
        names = [member["host"] for member in given]
        rows = {host.name: host for host in all_or_none(hosts_visible(self.actor), "name", names, "/hosts")}
        return [(rows[member["host"]], member.get("address", "")) for member in given]

    @extend_schema(request=VirtualAddressInput, responses={201: VirtualAddressSerializer})
    def create(self, request: Request) -> Response:
        """Add a virtual address. No host has the virtual address before its configuration is applied."""
        values = self.body(VirtualAddressInput)
        hosts = self._hosts(values.pop("hosts"))
        row = services.virtual_address_create(actor=self.actor, hosts=hosts, values=values)
        return self.answer(row, status=201, location=f"/api/v1/virtual-addresses/{row.name}/")

    @extend_schema(request=VirtualAddressChange)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Change a virtual address. Its hosts keep the configuration that was applied last, until the new configuration
        is applied.
        """
        row = self.get_object()
        expected, values = self.expected_version(row), self.body(VirtualAddressChange, partial=True)
        hosts = self._hosts(values.pop("hosts")) if "hosts" in values else None
        row = services.virtual_address_change(
            actor=self.actor, row=row, values=values, hosts=hosts, expected_version=expected
        )
        return self.answer(row)

    @extend_schema(parameters=[FORGET], responses={204: None})
    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete a virtual address that no host uses; with `forget=true`, also one that hosts use."""
        row, forget = self.get_object(), request.query_params.get("forget", "false")
        if forget not in ("true", "false"):
            raise parameter_error("forget", "Send true or false.")
        expected = self.expected_version(row)
        services.virtual_address_delete(actor=self.actor, row=row, forget=forget == "true", expected_version=expected)
        return Response(status=204)

    @extend_schema(request=ApplyInput, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, name: str = "") -> Response:
        """Apply the current configuration of the virtual address to its hosts.

        Every host tests its file first. If a host refuses the file, or no host has the virtual address afterwards, all
        hosts get their former files back.
        """
        row, values = self.get_object(), self.body(ApplyInput)
        return queued(services.virtual_address_apply(actor=self.actor, row=row, **values))

    @extend_schema(request=EmptySerializer, responses={202: HostJobSerializer})
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, name: str = "") -> Response:
        """Remove the virtual address from its hosts. Afterwards no host has the address."""
        return queued(services.virtual_address_withdraw(actor=self.actor, row=self.get_object()))
