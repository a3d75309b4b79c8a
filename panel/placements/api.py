"""REST endpoints of placements."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource, all_or_none, one
from panel.placements import services
from panel.placements.models import Placement
from panel.placements.selectors import placements_visible
from panel.placements.serializers import (
    PlacementInput,
    PlacementSerializer,
    PlacementsPlanInput,
    PlacementsPlannedSerializer,
)
from panel.websites.selectors import sites_visible


class Placements(Resource):
    """Placements: a site with copies on every host that has given tags."""

    model = Placement
    serializer_class = PlacementSerializer
    lookup_field = "site__name"
    lookup_url_kwarg = "name"
    lookup_value_regex = "[^/]+"
    writes = Action.CHANGE
    filter_fields = {"tags": ["has"]}
    ordering_fields = ("id", "created_at")
    ordering = "id"
    dry_run_actions = {"create", "destroy"}

    def rows(self) -> QuerySet[Placement]:
        return placements_visible(self.actor).prefetch_related("copies__site")

    @extend_schema(request=PlacementInput, responses={200: PlacementSerializer})
    def create(self, request: Request) -> Response:
        """Place a site on every host that has all of these tags, or change its placement. Nothing is deployed."""
        values = self.body(PlacementInput)
        site = one(sites_visible(self.actor), "name", values.pop("site"), "/site")
        placement = services.placement_set(actor=self.actor, site=site, **values)
        return Response(PlacementSerializer(self.rows().get(pk=placement.pk)).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete the placement. Its copies stay on their hosts, as independent sites."""
        services.placement_delete(actor=self.actor, placement=self.get_object())
        return Response(status=204)

    @extend_schema(request=PlacementsPlanInput, responses={201: PlacementsPlannedSerializer})
    @action(detail=False, methods=["post"], pagination_class=None, filter_backends=[], writes=Action.DEPLOY)
    def plan(self, request: Request) -> Response:
        """Update the copies, and plan the deployments for all placements: one deployment per host.

        Hosts that have the tags get the copies; copies are removed from hosts that no longer have the tags.
        """
        names = self.body(PlacementsPlanInput).get("sites")
        rows = placements_visible(self.actor)
        if names:
            rows = rows.filter(site__in=all_or_none(sites_visible(self.actor), "name", names, "/sites"))
        planned = services.placements_plan(actor=self.actor, placements=rows)
        body = {
            "deploy": [str(row.uuid) for row in planned.deploy],
            "leave": [str(row.uuid) for row in planned.leave],
            "problems": planned.update.problems,
        }
        return Response(body, status=201)
