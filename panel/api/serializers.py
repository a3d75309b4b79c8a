"""Base classes of serializers, which convert JSON to values and back. Models and services validate the values."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import QuerySet
from rest_framework import serializers

from panel.accounts.models import Team, User
from panel.api import words


class StrictMixin:
    """Mixin of serializers that reject unknown fields and use the panel's error messages.

    Read-only fields are ignored.
    """

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()  # type: ignore[misc]
        for field in fields.values():
            words.put_into(field)
        return fields

    def to_internal_value(self, data: Any) -> Any:
        fields: dict[str, Any] = self.fields  # type: ignore[attr-defined]
        values = super().to_internal_value(_with_truths_as_words(data, fields))  # type: ignore[misc]
        errors = {}
        for name in data:
            field = fields.get(name)
            if field is None:
                known = ", ".join(key for key, item in fields.items() if not item.read_only)
                errors[str(name)] = [f"Unknown field. Known fields: {known}."]
        if errors:
            raise serializers.ValidationError(errors)
        return values


def _with_truths_as_words(data: Any, fields: dict[str, Any]) -> Any:
    """Replace booleans sent for number fields by strings such as "True", because Python treats True as the number 1.
    The number field then rejects the string with its usual message.
    """
    if not isinstance(data, dict):
        return data
    numbers = (serializers.IntegerField, serializers.FloatField, serializers.DecimalField)
    return {
        name: str(value) if isinstance(value, bool) and isinstance(fields.get(name), numbers) else value
        for name, value in data.items()
    }


class StrictSerializer(StrictMixin, serializers.Serializer[Any]):
    """Serializer of a request body that belongs to no single model."""


class Truth(serializers.BooleanField):
    """Boolean that accepts only JSON's true and false, not "yes" or 1."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class StrictModelSerializer(StrictMixin, serializers.ModelSerializer[Any]):
    """Serializer of one model's fields. Services check uniqueness and consistency."""

    serializer_field_mapping = serializers.ModelSerializer.serializer_field_mapping | {models.BooleanField: Truth}

    def get_validators(self) -> list[Any]:
        return []

    def build_standard_field(self, field_name: str, model_field: Any) -> Any:
        field_class, kwargs = super().build_standard_field(field_name, model_field)
        validators = kwargs.get("validators")
        if validators:
            kwargs["validators"] = [v for v in validators if type(v).__name__ != "UniqueValidator"]
        return field_class, kwargs


class TagsListField(serializers.ListField):
    """List of tags as strings; the model validates them."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=serializers.CharField(max_length=200), **kwargs)


def names_or_tags(attrs: dict[str, Any], names: str, tagged: str, kind: str) -> None:
    """Raise ValidationError unless exactly one of the fields `names` and `tagged` is in `attrs`."""
    if (names in attrs) == (tagged in attrs):
        words = f"Send either `{names}` (a list of {kind}) or `{tagged}` (tags that select {kind})."
        raise serializers.ValidationError({tagged if tagged in attrs else names: words})


def refuse_tags_unless(attrs: dict[str, Any], action: str) -> None:
    """Raise ValidationError if `add` or `remove` is sent with a bulk action other than `action`."""
    for name in ("add", "remove"):
        if name in attrs and attrs["action"] != action:
            raise serializers.ValidationError({name: f"Send tags only with the action `{action}`."})


class EmptySerializer(StrictSerializer):
    """Request body of actions without parameters; any field is rejected."""


class NamesSerializer(StrictSerializer):
    """Request body that names 1 to 1000 sites."""

    sites = serializers.ListField(child=serializers.CharField(max_length=63), allow_empty=False, max_length=1000)


class TeamField(serializers.SlugRelatedField):  # type: ignore[type-arg] # not subscriptable when it runs
    """Slug of one of the caller's teams, or of any team for administrators.

    Other teams are reported as not existing.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="slug", queryset=Team.objects.all(), **kwargs)

    def get_queryset(self) -> QuerySet[Team]:
        request = self.context.get("request")
        if request is None or not isinstance(request.user, User) or request.user.is_admin:
            return Team.objects.all()
        return request.user.teams.all()
