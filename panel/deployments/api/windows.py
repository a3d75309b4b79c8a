"""API views of change windows and freezes."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.permissions import Action
from panel.api.base import Resource
from panel.api.serializers import StrictModelSerializer, TagsListField
from panel.deployments.change_windows import ChangeWindow
from panel.deployments.windows import services
from panel.deployments.windows.selectors import change_windows


@extend_schema_field({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "example": "22:00"})
class ClockField(serializers.TimeField):
    """Time of day as `HH:MM`, in the time zone of the change window."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(format="%H:%M", input_formats=["%H:%M"], required=False, allow_null=True, **kwargs)


class ChangeWindowSerializer(serializers.ModelSerializer[ChangeWindow]):
    """A weekly window in which hosts with all of `tags` may be changed, or a freeze, during which they must not be
    changed.
    """

    tags = TagsListField(read_only=True)
    weekdays = serializers.ListField(child=serializers.IntegerField(), read_only=True)
    opens_at = ClockField()
    closes_at = ClockField()

    class Meta:
        model = ChangeWindow
        fields = ["id", *services.FIELDS, "created_at", "updated_at"]


class ChangeWindowInput(StrictModelSerializer):
    """Fields of a change window. `weekdays`: 0 is Monday. A weekly window needs weekdays and times; a freeze needs a
    beginning and an end.
    """

    tags = TagsListField(required=False)
    weekdays = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=6), required=False, max_length=7
    )
    opens_at = ClockField()
    closes_at = ClockField()

    class Meta:
        model = ChangeWindow
        fields = list(services.FIELDS)


class ChangeWindows(Resource):
    """Times at which hosts may be changed. All users can read them; administrators change them."""

    model = ChangeWindow
    serializer_class = ChangeWindowSerializer
    versioned = True
    writes = Action.ADMINISTER
    filter_fields = {"kind": ["exact"], "tags": ["has"]}
    ordering_fields = ("id", "name")
    ordering = "name"
    dry_run_actions = {"create", "partial_update", "destroy"}

    def rows(self) -> QuerySet[ChangeWindow]:
        return change_windows()

    @extend_schema(request=ChangeWindowInput, responses={201: ChangeWindowSerializer})
    def create(self, request: Request) -> Response:
        """Create a weekly change window, or a freeze: a time during which hosts must not be changed."""
        row = services.change_window_set(actor=self.actor, **self.body(ChangeWindowInput))
        return self.answer(row, status=201, location=f"/api/v1/change-windows/{row.pk}/")

    @extend_schema(request=ChangeWindowInput)
    def partial_update(self, request: Request, pk: str = "") -> Response:
        """Change the fields of a change window or freeze; omitted fields keep their values."""
        row = self.get_object()
        expected = self.expected_version(row)
        values = self.body(ChangeWindowInput, partial=True)
        services.change_window_set(actor=self.actor, window=row, expected_version=expected, **values)
        return self.answer(self.get_object())

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str = "") -> Response:
        """Delete a change window or freeze, which then no longer limits changes of hosts."""
        services.change_window_delete(actor=self.actor, window=self.get_object())
        return Response(status=204)
