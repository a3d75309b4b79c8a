"""Access lists over the API."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from panel.api.base import Resource
from panel.websites import services
from panel.websites.models import AccessList
from panel.websites.selectors import access_lists_visible
from panel.websites.serializers.access_lists import AccessListChange, AccessListInput, AccessListSerializer


class AccessLists(Resource):
    """Addresses and networks under a name. An access rule with the source `@name` means all of them."""

    model = AccessList
    serializer_class = AccessListSerializer
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    versioned = True
    filter_fields = {"name": ["exact", "in"], "team__slug": ["exact", "in"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions = {"create", "partial_update", "destroy"}

    def rows(self) -> QuerySet[AccessList]:
        return access_lists_visible(self.actor)

    @extend_schema(request=AccessListInput, responses={201: AccessListSerializer})
    def create(self, request: Request) -> Response:
        """Add a list to a team."""
        made = services.access_list_create(actor=self.actor, **self.body(AccessListInput))
        return self.answer(made, status=201, location=f"/api/v1/access-lists/{made.name}/")

    @extend_schema(request=AccessListChange, responses=AccessListSerializer)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Replace the addresses. Sites that use the list have changes to deploy."""
        row = self.get_object()
        values, expected = self.body(AccessListChange), self.expected_version(row)
        changed = services.access_list_update(actor=self.actor, access_list=row, expected_version=expected, **values)
        return self.answer(changed)

    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete a list that no site uses."""
        row = self.get_object()
        services.access_list_delete(actor=self.actor, access_list=row, expected_version=self.expected_version(row))
        return Response(status=204)
