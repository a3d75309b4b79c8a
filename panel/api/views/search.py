"""API view of the command palette's search."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from panel.api.base import ApiMixin
from panel.api.problems import parameter_error
from panel.core.views.search import KINDS, MIN_LENGTH, search_all


class HitSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=KINDS)
    label = serializers.CharField()  # type: ignore[assignment]
    detail = serializers.CharField(allow_blank=True)
    page = serializers.CharField(help_text="The page of this object in the panel.")


class SearchView(ApiMixin):
    """Search by words: names of sites, domains, hosts, certificates and runs, addresses of upstream servers, and
    folders.
    Returns the first few matches of each kind.
    """

    parameters = {"get": {"q"}}

    @extend_schema(
        responses=HitSerializer(many=True),
        operation_id="search",
        parameters=[OpenApiParameter("q", str, required=True)],
    )
    def get(self, request: Request) -> Response:
        words = request.query_params.get("q", "").strip()
        if not MIN_LENGTH <= len(words) <= 100:
            raise parameter_error("q", f"Enter a search text of {MIN_LENGTH} to 100 characters.")
        return Response(
            [
                {"kind": group.kind, "label": hit.label, "detail": str(hit.detail), "page": hit.url}
                for group in search_all(self.actor, words)
                for hit in group.hits
            ]
        )
