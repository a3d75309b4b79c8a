"""Cursor pagination of lists: stable while rows are added or deleted, and equally fast on all pages."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from panel.api.problems import parameter_error

DEFAULT, MAXIMUM = 50, 1000
_CURSOR = "Use the cursor from next or previous of an earlier response."


class Pages(CursorPagination):
    """Paginator: `limit` from 1 to 1000 (default 50), `cursor` from `next` or `previous` of a response, `ordering`."""

    page_size = DEFAULT
    max_page_size = MAXIMUM
    page_size_query_param = "limit"
    cursor_query_param = "cursor"
    page_size_query_description = f"Maximum number of items: 1 to {MAXIMUM}."

    def get_page_size(self, request: Request) -> int:
        raw = request.query_params.get("limit")
        if raw is None:
            return DEFAULT
        if not (raw.isascii() and raw.isdecimal()) or len(raw) > 4 or not 1 <= int(raw) <= MAXIMUM:
            raise parameter_error("limit", f"Send a whole number from 1 to {MAXIMUM}.")
        return int(raw)

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        ordering: tuple[str, ...] = view.ordering_of(request)
        return ordering

    def decode_cursor(self, request: Request) -> Any:
        try:
            cursor = super().decode_cursor(request)
        except NotFound as error:
            raise parameter_error("cursor", _CURSOR) from error
        if cursor is not None and "\0" in str(cursor.position or ""):  # PostgreSQL cannot compare null characters
            raise parameter_error("cursor", _CURSOR)
        return cursor

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValidationError, ValueError, TypeError) as error:  # a position that does not fit this ordering
            if "cursor" not in request.query_params:
                raise
            raise parameter_error("cursor", _CURSOR) from error

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, object]]:
        parameters = super().get_schema_operation_parameters(view)
        for parameter in parameters:
            if parameter["name"] == "limit":
                parameter["schema"] = {"type": "integer", "minimum": 1, "maximum": MAXIMUM, "default": DEFAULT}
        return parameters
