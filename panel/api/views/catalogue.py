"""API views of the error catalog, and the response to unknown URLs."""

from __future__ import annotations

from typing import Any, NoReturn

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from panel.api.base import ApiMixin
from panel.api.problems import CATALOGUE, TYPE_PREFIX, ApiError


class ProblemKindSerializer(serializers.Serializer[Any]):
    type = serializers.CharField()
    status = serializers.IntegerField()
    title = serializers.CharField()
    advice = serializers.CharField()


def _row(kind: str) -> dict[str, object]:
    row = CATALOGUE[kind]
    return {"type": f"{TYPE_PREFIX}{kind}/", "status": row.status, "title": row.title, "advice": row.advice}


class ProblemsView(ApiMixin):
    """All kinds of errors of this API, with status, title, and advice."""

    @extend_schema(responses=ProblemKindSerializer(many=True), operation_id="problems_list")
    def get(self, request: Request) -> Response:
        return Response([_row(kind) for kind in CATALOGUE])


class ProblemView(ApiMixin):
    """One kind of error: status, title, and advice."""

    @extend_schema(responses=ProblemKindSerializer, operation_id="problems_retrieve")
    def get(self, request: Request, kind: str) -> Response:
        if kind not in CATALOGUE:
            raise ApiError("not-found", f"Unknown error kind “{kind}”.")
        return Response(_row(kind))


@extend_schema(exclude=True)
class NothingView(APIView):
    """Respond with problem details to unknown URLs below /api/v1/."""

    permission_classes = [AllowAny]
    authentication_classes = []

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        raise ApiError(
            "not-found",
            f"This endpoint does not exist. The documentation is at {TYPE_PREFIX.replace('problems', 'docs')}.",
        )

    def get(self, request: Request) -> Response:
        raise AssertionError("initial() answers")

    post = put = patch = delete = get
