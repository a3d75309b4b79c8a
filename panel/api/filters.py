"""Filters of lists: `name=`, `name__in=a,b`, `name__icontains=`, `created_at__gte=`. Unknown filters are rejected."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import lru_cache
from typing import Any, cast

import django_filters
from django import forms
from django.db.models import DateTimeField, Model, QuerySet
from django_filters.fields import IsoDateTimeField
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import ValidationError

from panel.api.problems import ApiError, parameter_error
from panel.core.tags import TagsField, with_tags

MOST_NUMBER = 2**63  # integers of databases are smaller
_OF_NUMBERS = (django_filters.ModelChoiceFilter, django_filters.NumberFilter)


class _Truth(django_filters.TypedChoiceFilter):  # type: ignore[misc]
    """Filter of a boolean field; accepts only `true` and `false`."""

    def __init__(self, **kwargs: Any) -> None:
        choices = [("true", "true"), ("false", "false")]
        super().__init__(choices=choices, coerce=lambda text: text == "true", **kwargs)


class _Numbers(django_filters.BaseInFilter, django_filters.NumberFilter):  # type: ignore[misc]
    """Filter by numbers or ids, separated by commas. Unknown ids match nothing.
    Numbers that no column can hold match nothing either, because SQLite raises OverflowError for them.
    """

    def filter(self, queryset: QuerySet[Any], value: list[Decimal] | None) -> QuerySet[Any]:
        if not value:
            return queryset
        found: QuerySet[Any] = queryset.filter(
            **{f"{self.field_name}__in": [number for number in value if abs(number) < MOST_NUMBER]}
        )
        return found


class _TimeField(IsoDateTimeField):  # type: ignore[misc]
    """Time field that converts to UTC, because PostgreSQL does not support offsets of sixteen hours or more."""

    def to_python(self, value: Any) -> dt.datetime | None:
        found: dt.datetime | None = super().to_python(value)
        try:
            return found.astimezone(dt.UTC) if found else None
        except OverflowError:  # before the year 1 or after 9999 in UTC
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class _Time(django_filters.IsoDateTimeFilter):  # type: ignore[misc]
    field_class = _TimeField


class _Tagged(django_filters.BaseInFilter, django_filters.CharFilter):  # type: ignore[misc]
    """Filter by tags, separated by commas; selects the rows that have all of the tags."""

    def filter(self, queryset: QuerySet[Any], value: list[str] | None) -> QuerySet[Any]:
        return with_tags(queryset, value or [], self.field_name)


@lru_cache(maxsize=128)
def _filter_set(model: type[Model], fields: tuple[tuple[str, tuple[str, ...]], ...]) -> type[django_filters.FilterSet]:
    overrides = {TagsField: {"filter_class": _Tagged}, DateTimeField: {"filter_class": _Time}}
    names = {name: list(lookups) for name, lookups in fields}
    meta = type("Meta", (), {"model": model, "fields": names, "filter_overrides": overrides})
    made: Any = type(f"{model.__name__}Filters", (django_filters.FilterSet,), {"Meta": meta})
    for name, item in made.base_filters.items():
        if isinstance(item, django_filters.BooleanFilter):  # it would ignore any other value
            made.base_filters[name] = _Truth(field_name=item.field_name, lookup_expr=item.lookup_expr)
        elif isinstance(item, _OF_NUMBERS) and item.lookup_expr == "in":
            made.base_filters[name] = _Numbers(field_name=item.field_name, lookup_expr="in")
    for item in made.base_filters.values():
        item.extra["error_messages"] = _words(item)
    found: type[django_filters.FilterSet] = made
    return found


def _words(item: Any) -> dict[str, str]:
    """Return error messages that name the valid values of a filter, by the error codes of Django's form fields."""
    if "choices" in item.extra:
        known = ", ".join(str(key) or "(nothing)" for key, _label in item.extra["choices"])
        return {"invalid_choice": f"“%(value)s” is not valid. Known values: {known}."}
    if isinstance(item, django_filters.ModelChoiceFilter):
        return {"invalid_choice": "No object has this ID, or you do not have access to it."}
    if isinstance(item, django_filters.DateTimeFilter):
        return {"invalid": "Send a time such as 2026-01-31T12:00:00."}
    if isinstance(item, django_filters.UUIDFilter):
        return {"invalid": "Send the complete UUID."}
    return {"invalid": "Send a number."} if isinstance(item, django_filters.NumberFilter) else {}


def _may_repeat(model: type[Model] | None, path: str) -> bool:
    """Return whether a filter by the lookup `path` can list a row several times, because it joins related rows."""
    for name in path.split("__"):
        if model is None:
            return False
        field = model._meta.get_field(name)
        if field.one_to_many or field.many_to_many:
            return True
        model = field.related_model
    return False


class StrictFilters(DjangoFilterBackend):  # type: ignore[misc]
    """Filter backend of django-filter for a view's `filter_fields`; invalid values raise ApiError."""

    @staticmethod
    def filters_of(view: Any) -> dict[str, object]:
        if not view.filter_fields:
            return {}
        made = StrictFilters().get_filterset_class(view, None)
        return dict(made.base_filters) if made else {}

    def get_filterset_class(self, view: Any, queryset: Any = None) -> Any:
        if not view.filter_fields:
            return None
        fields = tuple((name, tuple(lookups)) for name, lookups in view.filter_fields.items())
        return _filter_set(view.model, fields)

    def _of_nothing(self, request: Any, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        """Apply filters with an empty value, for example `resolution=`: select the rows whose field is empty.

        Only choice filters accept an empty value. Other filters reject an empty value, because a program that
        sends an empty list must not get all rows.
        """
        for name, item in self.filters_of(view).items():
            if request.query_params.get(name, "-").strip(", "):
                continue
            if not isinstance(item, django_filters.ChoiceFilter) or isinstance(item, _Truth):
                raise parameter_error(name, "Send a value, or omit the parameter.")
            queryset = queryset.filter(**{item.field_name: ""})
        return queryset

    def filter_queryset(self, request: Any, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        queryset = self._of_nothing(request, queryset, view)
        try:
            found: QuerySet[Any] = super().filter_queryset(request, queryset, view)
            used: list[Any] = [item for name, item in self.filters_of(view).items() if name in request.query_params]
            if any(_may_repeat(view.model, str(item.field_name)) for item in used):
                found = queryset.filter(pk__in=found.order_by().values("pk"))
            return found
        except ValidationError as error:
            errors = [
                {"pointer": f"?{name}", "detail": str(words[0])}
                for name, words in cast(dict[str, list[str]], error.detail).items()
            ]
            raise ApiError("parameter", errors[0]["detail"], errors) from error
