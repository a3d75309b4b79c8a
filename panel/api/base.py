"""Base classes of API views: permissions, query parameters, versions, dry runs, and idempotency."""

from __future__ import annotations

import base64
import binascii
from typing import Any, ClassVar, cast
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from panel.accounts.models import User
from panel.accounts.permissions import SCOPE_OF, Action, in_scope, require
from panel.accounts.sudo import sudo_is_open
from panel.api import etags, idempotency
from panel.api.filters import StrictFilters
from panel.api.pagination import Pages
from panel.api.problems import ApiError, parameter_error
from panel.core.tags import with_tags

SAFE = {"GET", "HEAD", "OPTIONS"}
UUID_REGEX = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
MAX_NAMED = 1000  # names in one request body
_TRUTH = {"true": True, "false": False}


def refuse_foreign_origin(request: Request) -> None:
    """Reject a request, also for a stream of events, that a page of another site sends with this browser's session (RFC
    6454).
    """
    origin = request.META.get("HTTP_ORIGIN")
    foreign = origin is not None and urlsplit(origin).netloc != request._request.get_host()
    if request.auth is None and (foreign or request.META.get("HTTP_SEC_FETCH_SITE") == "cross-site"):
        raise ApiError("forbidden", "Requests from other sites cannot use your session.")


def require_sudo(request: Request, what: str) -> None:
    """Raise ApiError unless the caller has a session with a recently confirmed password (and code).

    Call this before actions that could give control of the panel to others. `what` names the action in the error.
    """
    if request.auth is not None:
        raise ApiError("forbidden", f"Tokens cannot {what}. Sign in with a browser and confirm your password.")
    if not sudo_is_open(request._request):
        raise ApiError("confirm", f"To {what}, confirm your password at /confirm/ first.")


class ApiMixin(APIView):
    """Base class of API views.

    The caller's token must permit the action `reads` for safe methods, and the action `writes` for all other methods.
    Services check the permission for each object.
    """

    permission_classes = [IsAuthenticated]
    reads: ClassVar[Action] = Action.VIEW
    writes: ClassVar[Action] = Action.CHANGE
    # Query parameters besides those of lists, by action (or by method in lower case, if there are no actions).
    parameters: ClassVar[dict[str, set[str]]] = {}
    # Actions that accept dry_run=true: everything is checked and the normal response is sent, but nothing is changed.
    dry_run_actions: ClassVar[set[str]] = set()
    # Fields of a response that are shown only once, so they are not stored for the repetition of a call.
    shown_once: ClassVar[tuple[str, ...]] = ()

    _idempotency: Any = None

    @property
    def actor(self) -> User:
        return cast(User, self.request.user)

    @property
    def action_name(self) -> str:
        return getattr(self, "action", None) or (self.request.method or "").lower()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        refuse_foreign_origin(request)
        needed = self.reads if request.method in SAFE else self.writes
        if not in_scope(self.actor, needed):
            words = f"This token lacks the scope {SCOPE_OF[needed].value}. Create a token with this scope"
            raise ApiError("forbidden", f"{words} under Settings, API tokens.")
        if needed is Action.ADMINISTER:
            require(self.actor, needed)  # checked before the body, whose validation could reveal other names
        self._check_parameters(request)
        self._idempotency = idempotency.claim(request, self.actor)

    def allowed_parameters(self) -> set[str]:
        allowed = set(self.parameters.get(self.action_name, set()))
        if self.action_name in self.dry_run_actions:
            allowed.add("dry_run")
        return allowed

    def _check_parameters(self, request: Request) -> None:
        allowed = self.allowed_parameters()
        for name, values in request.query_params.lists():
            if name not in allowed:
                known = ", ".join(sorted(allowed)) or "none"
                raise parameter_error(name, f"Unknown parameter “{name[:80]}”. Known parameters: {known}.")
            if len(values) > 1:
                raise parameter_error(name, f"The parameter “{name}” appears twice. Send the parameter once.")
            if "\0" in values[0]:
                raise parameter_error(name, f"“{name}” contains a NUL byte. Remove the byte.")

    @property
    def is_dry_run(self) -> bool:
        raw = self.request.query_params.get("dry_run", "false")
        if raw not in _TRUTH:
            raise parameter_error("dry_run", "Send true or false.")
        return _TRUTH[raw]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Handle the request; with dry_run=true, in a transaction that is rolled back, without on-commit actions."""
        name = (request.method or "").lower()
        handler = getattr(self, name, None)
        if handler is not None and "dry_run" in request.GET and request.method not in SAFE:

            def tried(inner: Request, *inner_args: Any, **inner_kwargs: Any) -> Response:
                if not self.is_dry_run:
                    return cast(Response, handler(inner, *inner_args, **inner_kwargs))
                with transaction.atomic():
                    response = cast(Response, handler(inner, *inner_args, **inner_kwargs))
                    transaction.set_rollback(True)
                for header in ("Location", "ETag"):
                    response.headers.pop(header, None)
                response.status_code = 200
                response.headers["Dry-Run"] = "true"
                return response

            setattr(self, name, tried)
        return super().dispatch(request, *args, **kwargs)

    def handle_exception(self, exc: Exception) -> Any:
        if isinstance(exc, idempotency.Replay):
            return exc.response
        return super().handle_exception(exc)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        record, self._idempotency = self._idempotency, None
        if record is not None:
            if isinstance(response, Response) and not (response.status_code < 400 and self.is_dry_run):
                idempotency.keep(record, response, self.shown_once)
            else:
                idempotency.release(record)
        return response


class Resource(ApiMixin, GenericViewSet):  # type: ignore[type-arg]
    """A collection of objects with strict filters, fixed orderings, selectable fields, and versions (ETags)."""

    pagination_class = Pages
    lookup_value_regex = "[0-9]{1,18}"
    filter_backends = [StrictFilters]
    filter_fields: ClassVar[dict[str, list[str]]] = {}
    ordering_fields: ClassVar[tuple[str, ...]] = ("id",)
    ordering: ClassVar[str] = "id"
    versioned: ClassVar[bool] = False
    model: ClassVar[type[Model]]

    def rows(self) -> QuerySet[Any]:
        """Return the rows that the caller has access to."""
        raise NotImplementedError

    def get_queryset(self) -> QuerySet[Any]:
        if getattr(self, "swagger_fake_view", False):  # the schema is generated without a caller
            return self.model._default_manager.none()
        return self.rows()

    def allowed_parameters(self) -> set[str]:
        allowed = super().allowed_parameters()
        if self.action_name == "list":
            allowed |= {"limit", "cursor", "ordering"} | set(StrictFilters.filters_of(self))
        if self.action_name in {"list", "retrieve"}:
            allowed.add("fields")
        return allowed

    def ordering_of(self, request: Request) -> tuple[str, ...]:
        """Return the ordering that `ordering=` names, followed by the primary key, so that the order is unique.
        Raises ApiError for an ordering that is not in `ordering_fields`.
        """
        wanted = request.query_params.get("ordering", self.ordering)
        if wanted.removeprefix("-") not in self.ordering_fields:
            names = ", ".join(self.ordering_fields)
            raise parameter_error("ordering", f"Order by one of: {names}. Prefix the name with - for descending order.")
        if wanted.removeprefix("-") == "id":
            return (wanted,)
        return (wanted, "-id") if wanted.startswith("-") else (wanted, "id")  # same direction for both, as in indexes

    def get_serializer(self, *args: Any, **kwargs: Any) -> Any:
        serializer = super().get_serializer(*args, **kwargs)
        if self.action_name in {"list", "retrieve"}:
            inner = serializer.child if isinstance(serializer, serializers.ListSerializer) else serializer
            self._limit_fields(cast(serializers.Serializer[Any], inner))
        return serializer

    def _limit_fields(self, serializer: serializers.Serializer[Any]) -> None:
        raw = self.request.query_params.get("fields") if getattr(self, "request", None) else None
        if raw is None:
            return
        wanted = {name for name in raw.split(",") if name}
        unknown = wanted - set(serializer.fields)
        if unknown or not wanted:
            known = ", ".join(serializer.fields)
            raise parameter_error(
                "fields", f"Unknown fields: {', '.join(sorted(unknown)) or 'none'}. Known fields: {known}."
            )
        for name in set(serializer.fields) - wanted:
            serializer.fields.pop(name)

    # --- reads ---

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        instance = self.get_object()
        if self.versioned and etags.is_fresh(request, instance):
            return Response(status=304, headers=etags.headers_of(instance))
        return self.answer(instance)

    # --- writes ---

    def body(self, serializer_class: type[serializers.BaseSerializer[Any]], **kwargs: Any) -> dict[str, Any]:
        """Return the request body as validated by `serializer_class`; errors have a JSON pointer to their field."""
        serializer = serializer_class(data=self.request.data, context=self.get_serializer_context(), **kwargs)
        serializer.is_valid(raise_exception=True)
        data: dict[str, Any] = serializer.validated_data
        return data

    def expected_version(self, instance: Model) -> int | None:
        return etags.expected_version(self.request, instance)

    def answer(self, instance: Any, *, status: int = 200, location: str = "") -> Response:
        """Return a response with one object, and with its version as a weak ETag if the resource is versioned."""
        headers = etags.headers_of(instance) if self.versioned else {}
        if location:
            headers["Location"] = location
        return Response(self.get_serializer(instance).data, status=status, headers=headers)


def all_or_none(queryset: QuerySet[Any], field: str, values: list[Any], pointer: str) -> list[Any]:
    """Return the rows of `queryset` whose `field` is in `values`, each once, in the order of `values`.

    Raises ApiError if any value has no row; `pointer` is the JSON pointer of the list `values`.
    """
    rows = {getattr(row, field): row for row in queryset.filter(**{f"{field}__in": values})}
    errors = [
        {"pointer": f"{pointer}/{index}", "detail": f"“{value}” does not exist, or you do not have access to it."}
        for index, value in enumerate(values)
        if value not in rows
    ]
    if errors:
        raise ApiError("invalid", "Some of the named objects do not exist. Nothing was changed.", errors)
    return [rows[value] for value in dict.fromkeys(values)]


def one(queryset: QuerySet[Any], field: str, value: Any, pointer: str) -> Any:
    """Return the row of `queryset` whose `field` equals `value`.

    Raises ApiError with the JSON pointer `pointer` if there is no such row.
    """
    row = queryset.filter(**{field: value}).first()
    if row is None:
        words = f"“{value}” does not exist, or you do not have access to it."
        raise ApiError("invalid", words, [{"pointer": pointer, "detail": words}])
    return row


def base64_decoded(text: str, pointer: str) -> bytes:
    """Return the bytes of a file sent as Base64 (RFC 4648); raise ApiError for text that is not Base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        problem = {"pointer": pointer, "detail": f"The value of this field is not valid Base64: {error}."}
        raise ApiError("invalid", "The file in the request is not valid Base64.", [problem]) from error


def all_tagged(queryset: QuerySet[Any], tags: list[str], pointer: str) -> list[Any]:
    """Return the rows of `queryset` that have all of `tags`.

    Raises ApiError with the JSON pointer `pointer` if no row has all of the tags (a tag may be misspelled), or if more
    than MAX_NAMED rows have them.
    """
    rows = list(with_tags(queryset, tags)[: MAX_NAMED + 1])
    words = "" if rows else f"No objects that you have access to have all of these tags: {', '.join(tags)}."
    if len(rows) > MAX_NAMED:
        words = f"More than {MAX_NAMED} objects have these tags. Add tags, or list the objects by name."
    if words:
        raise ApiError("invalid", words, [{"pointer": pointer, "detail": words}])
    return rows
