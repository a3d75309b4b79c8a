"""REST API of shared settings: access lists, header sets, directive sets."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource, require_sudo
from panel.websites import services
from panel.websites.models import AccessList, DirectiveSet, HeaderSet, SharedSetting
from panel.websites.selectors import shared_settings_visible
from panel.websites.serializers import shared


class _SharedSettings(Resource):
    model: ClassVar[type[SharedSetting]]
    input_class: ClassVar[type[serializers.Serializer[Any]]]
    change_class: ClassVar[type[serializers.Serializer[Any]]]
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    versioned = True
    filter_fields: ClassVar[dict[str, list[str]]] = {"name": ["exact", "in"], "team__slug": ["exact", "in"]}
    ordering_fields = ("id", "name", "created_at")
    ordering = "name"
    dry_run_actions: ClassVar[set[str]] = {"create", "partial_update", "destroy"}

    def rows(self) -> QuerySet[Any]:
        return shared_settings_visible(self.model, self.actor)

    def _create(self) -> Response:
        values = dict(self.body(self.input_class))
        made = services.shared_setting_create(
            actor=self.actor, model=self.model, team=values.pop("team"), values=values
        )
        return self.answer(made, status=201, location=f"/api/v1/{self.model.slug}s/{made.name}/")

    def _partial_update(self) -> Response:
        row = self.get_object()
        values, expected = self.body(self.change_class), self.expected_version(row)
        changed = services.shared_setting_update(actor=self.actor, row=row, values=values, expected_version=expected)
        return self.answer(changed)

    def _destroy(self) -> Response:
        row = self.get_object()
        services.shared_setting_delete(actor=self.actor, row=row, expected_version=self.expected_version(row))
        return Response(status=204)


class AccessLists(_SharedSettings):
    """Access lists: addresses and networks under a name. An access rule with the source `@name` means all of them."""

    model = AccessList
    serializer_class = shared.AccessListSerializer
    input_class, change_class = shared.AccessListInput, shared.AccessListChange

    @extend_schema(request=shared.AccessListInput, responses={201: shared.AccessListSerializer})
    def create(self, request: Request) -> Response:
        """Add an access list to a team."""
        return self._create()

    @extend_schema(request=shared.AccessListChange, responses=shared.AccessListSerializer)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Replace the addresses of an access list. Sites that use the list then have changes to deploy."""
        return self._partial_update()

    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete an access list that no site uses."""
        return self._destroy()


class HeaderSets(_SharedSettings):
    """Header sets: response headers under a name. A header with the name `@name` and no value means all of them."""

    model = HeaderSet
    serializer_class = shared.HeaderSetSerializer
    input_class, change_class = shared.HeaderSetInput, shared.HeaderSetChange

    @extend_schema(request=shared.HeaderSetInput, responses={201: shared.HeaderSetSerializer})
    def create(self, request: Request) -> Response:
        """Add a header set to a team."""
        return self._create()

    @extend_schema(request=shared.HeaderSetChange, responses=shared.HeaderSetSerializer)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Replace the headers of a header set. Sites that use the set then have changes to deploy."""
        return self._partial_update()

    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete a header set that no site uses."""
        return self._destroy()


class DirectiveSets(_SharedSettings):
    """Directive sets: raw directives under a name, for administrators. A line `@name` in raw directives means all of
    them.
    """

    model = DirectiveSet
    serializer_class = shared.DirectiveSetSerializer
    input_class, change_class = shared.DirectiveSetInput, shared.DirectiveSetChange
    writes = Action.ADMINISTER
    filter_fields: ClassVar[dict[str, list[str]]] = {**_SharedSettings.filter_fields, "engine": ["exact", "in"]}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method not in {"GET", "HEAD", "OPTIONS"} and request.auth is None:
            require_sudo(request, "write raw directives")

    @extend_schema(request=shared.DirectiveSetInput, responses={201: shared.DirectiveSetSerializer})
    def create(self, request: Request) -> Response:
        """Add a directive set to a team."""
        return self._create()

    @extend_schema(request=shared.DirectiveSetChange, responses=shared.DirectiveSetSerializer)
    def partial_update(self, request: Request, name: str = "") -> Response:
        """Replace the text of a directive set. If the raw directives of any site that uses the set would become
        invalid, nothing changes.
        """
        return self._partial_update()

    def destroy(self, request: Request, name: str = "") -> Response:
        """Delete a directive set that no site uses."""
        return self._destroy()
