"""Filters by name: `name=`, `name__in=a,b`, `name__icontains=`, `created_at__gte=`; what is not listed is refused."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import django_filters
from django.db.models import Model, QuerySet
from django_filters.rest_framework import DjangoFilterBackend
from rest_framework.exceptions import ValidationError

from panel.api.problems import ApiError


class _Truth(django_filters.TypedChoiceFilter):  # type: ignore[misc]
    """`true` or `false`, nothing else."""

    def __init__(self, **kwargs: Any) -> None:
        choices = [("true", "true"), ("false", "false")]
        super().__init__(choices=choices, coerce=lambda text: text == "true", **kwargs)


@lru_cache(maxsize=128)
def _filter_set(model: type[Model], fields: tuple[tuple[str, tuple[str, ...]], ...]) -> type[django_filters.FilterSet]:
    meta = type("Meta", (), {"model": model, "fields": {name: list(lookups) for name, lookups in fields}})
    made: Any = type(f"{model.__name__}Filters", (django_filters.FilterSet,), {"Meta": meta})
    for name, item in made.base_filters.items():
        if isinstance(item, django_filters.BooleanFilter):  # which takes anything else for "not asked"
            made.base_filters[name] = _Truth(field_name=item.field_name, lookup_expr=item.lookup_expr)
    found: type[django_filters.FilterSet] = made
    return found


class StrictFilters(DjangoFilterBackend):  # type: ignore[misc]
    """django-filter over a view's `filter_fields`; a value that is not understood is an error, never "no filter"."""

    @staticmethod
    def filters_of(view: Any) -> dict[str, Any]:
        if not view.filter_fields:
            return {}
        made = StrictFilters().get_filterset_class(view, None)
        return dict(made.base_filters) if made else {}

    def get_filterset_class(self, view: Any, queryset: Any = None) -> Any:
        if not view.filter_fields:
            return None
        fields = tuple((name, tuple(lookups)) for name, lookups in view.filter_fields.items())
        return _filter_set(view.model, fields)

    def filter_queryset(self, request: Any, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        try:
            found: QuerySet[Any] = super().filter_queryset(request, queryset, view)
            return found
        except ValidationError as error:
            errors = [
                {"pointer": f"?{name}", "detail": str(words[0])}
                for name, words in cast(dict[str, list[str]], error.detail).items()
            ]
            raise ApiError("parameter", errors[0]["detail"], errors) from error
