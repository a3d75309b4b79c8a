"""API views to start and to end the maintenance of sites."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource
from panel.api.serializers import StrictModelSerializer, StrictSerializer, TagsListField, names_or_tags
from panel.deployments.api.deployments import plans_answer
from panel.deployments.maintenance import services
from panel.deployments.maintenance.selectors import maintenance_visible
from panel.deployments.serializers import DeploymentDetailSerializer
from panel.websites.api.sites import named_sites
from panel.websites.models import Maintenance
from panel.websites.selectors import sites_visible

_QUEUED = {202: DeploymentDetailSerializer(many=True), 204: None}


class MaintenanceSerializer(serializers.ModelSerializer[Maintenance]):
    """A site in maintenance: visitors see a page with status 503, except those from `allowed` addresses."""

    site = serializers.CharField(source="site.name", read_only=True)
    allowed = serializers.ListField(child=serializers.CharField(), read_only=True)
    started_by = serializers.CharField(source="started_by.username", read_only=True, allow_null=True, default=None)

    class Meta:
        model = Maintenance
        fields = ["site", "text", "retry_after_s", "allowed", "ends_at", "started_by", "created_at"]


class _Sites(StrictSerializer):
    sites = serializers.ListField(
        child=serializers.CharField(max_length=63), allow_empty=False, max_length=1000, required=False
    )
    sites_tagged = TagsListField(
        allow_empty=False, required=False, help_text="Use instead of `sites`: selects all sites with these tags."
    )

    def validate(self, attrs: Any) -> Any:
        names_or_tags(attrs, "sites", "sites_tagged", "sites")
        return attrs


class MaintenanceEnd(_Sites):
    """Names or tags of the sites whose maintenance ends."""


class MaintenanceInput(_Sites, StrictModelSerializer):
    """Sites to put into maintenance, and the settings of the maintenance; each setting has a default."""

    allowed = serializers.ListField(child=serializers.CharField(max_length=60), required=False, max_length=200)

    class Meta:
        model = Maintenance
        fields = ["sites", "sites_tagged", "text", "retry_after_s", "allowed", "ends_at"]
        extra_kwargs = {"text": {"required": False}}


class Maintenances(Resource):
    """Sites in maintenance."""

    model = Maintenance
    serializer_class = MaintenanceSerializer
    lookup_field = "site__name"
    lookup_url_kwarg = "name"
    lookup_value_regex = "[^/]+"
    writes = Action.DEPLOY
    filter_fields = {"ends_at": ["gte", "lte"]}
    ordering_fields = ("id", "created_at")
    ordering = "id"

    def rows(self) -> QuerySet[Maintenance]:
        return maintenance_visible(self.actor)

    @extend_schema(request=MaintenanceInput, responses=_QUEUED)
    def create(self, request: Request) -> Response:
        """Put live sites into maintenance at once, or change the settings of a running maintenance: one deployment per
        host.

        Changes in drafts are not deployed. During the maintenance, every address responds with 503 and Retry-After,
        except ACME challenges. 204 if no files change.
        """
        values = self.body(MaintenanceInput)
        sites = named_sites(sites_visible(self.actor), values)
        given = {name: values[name] for name in services.Settings.__dataclass_fields__ if name in values}
        return self._queued(
            services.maintenance_start(actor=self.actor, sites=sites, settings=services.Settings(**given))
        )

    @extend_schema(request=MaintenanceEnd, responses=_QUEUED)
    @action(detail=False, methods=["post"], pagination_class=None, filter_backends=[])
    def end(self, request: Request) -> Response:
        """End the maintenance of the given sites: they respond as before. 204 if none of them is in maintenance."""
        sites = named_sites(sites_visible(self.actor), self.body(MaintenanceEnd))
        return self._queued(services.maintenance_end(actor=self.actor, sites=sites))

    def _queued(self, plans: list[Any]) -> Response:
        if not plans:
            return Response(status=204)
        return plans_answer(self, plans, accepted=True)
