"""REST API of previews."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import UUID_REGEX, Resource, one
from panel.deployments.selectors import deployments_visible
from panel.previews import services
from panel.previews.models import Preview
from panel.previews.selectors import previews_visible
from panel.previews.serializers import PreviewInput, PreviewSerializer


class Previews(Resource):
    """Previews of plans: private copies of the live version and of the draft of each site receive the same requests."""

    model = Preview
    serializer_class = PreviewSerializer
    lookup_field = "uuid"
    lookup_value_regex = UUID_REGEX
    writes = Action.DEPLOY
    filter_fields = {"status": ["exact", "in"], "created_at": ["gte", "lte"]}
    ordering_fields = ("id", "created_at")
    ordering = "-created_at"
    dry_run_actions = {"create"}

    def rows(self) -> QuerySet[Preview]:
        return previews_visible(self.actor)

    @extend_schema(request=PreviewInput, responses={202: PreviewSerializer})
    def create(self, request: Request) -> Response:
        """Start a preview of a plan that waits for its confirmation.

        The requests are the most frequent GET and HEAD requests of the sites' own access logs, without query strings,
        and one request to each location. Applications receive each request three times.
        """
        plan = one(deployments_visible(self.actor), "uuid", self.body(PreviewInput)["deployment"], "/deployment")
        preview = services.preview_request(actor=self.actor, deployment=plan)
        headers = {"Location": f"/api/v1/previews/{preview.uuid}/"}
        return Response(PreviewSerializer(preview).data, status=202, headers=headers)
