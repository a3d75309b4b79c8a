"""Additions to the OpenAPI schema that drf-spectacular cannot derive from the views."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from panel.api.base import ApiMixin, Resource

Document = dict[str, Any]  # an OpenAPI document

_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "errors", "request_id"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {"pointer": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
        "request_id": {"type": "string"},
    },
}
_UNSAFE = {"post", "put", "patch", "delete"}
_DRY_RUN = OpenApiParameter(
    "dry_run", bool, description="true validates the call and returns the usual response but changes nothing."
)
_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A repeated call with the same key within 24 hours returns the first response.",
)
_IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, description="The ETag of the version that you read."
)


class Schema(AutoSchema):
    """OpenAPI schema of one view, with the parameters that panel/api/base.py defines for all views."""

    def get_override_parameters(self) -> list[Any]:
        view, found = self.view, list(super().get_override_parameters())
        if not isinstance(view, ApiMixin):
            return found
        name = view.action_name if getattr(view, "action", None) else self.method.lower()
        declared = {item.name for item in found if isinstance(item, OpenApiParameter)}
        if isinstance(view, Resource):
            if name == "list":
                ordering = [item for field in view.ordering_fields for item in (field, f"-{field}")]
                found.append(OpenApiParameter("ordering", str, enum=ordering))
            if name in {"list", "retrieve"}:
                found.append(
                    OpenApiParameter("fields", str, description="Return only these fields; separate them with commas.")
                )
        found += [
            OpenApiParameter(item, str) for item in sorted(view.parameters.get(name, set())) if item not in declared
        ]
        if name in view.dry_run_actions:
            found.append(_DRY_RUN)
        if self.method == "POST":
            found.append(_KEY)
        if self.method in {"PUT", "PATCH", "DELETE"} and getattr(view, "versioned", False):
            found.append(_IF_MATCH)
        return found


def add_problems(result: Document, generator: Any, request: Any, public: bool) -> Document:
    """Add problem details as a possible response of every operation to the OpenAPI document."""
    result.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for methods in result["paths"].values():
        for operation in methods.values():
            if isinstance(operation, dict) and "responses" in operation:
                operation["responses"].setdefault("default", {"description": "Problem details", "content": content})
    return result


_VERBS = {
    "list": "List",
    "retrieve": "Get one object",
    "create": "Add",
    "partial_update": "Change",
    "update": "Replace",
    "destroy": "Delete",
}


def add_summaries(result: Document, generator: Any, request: Any, public: bool) -> Document:
    """Add a summary to each operation without a summary. The summary is the first sentence of the description.

    The operations of a collection can have the same description. Then their summaries are phrases from `_VERBS`, for
    example "List".
    """
    operations = [operation for methods in result["paths"].values() for operation in methods.values()]
    described = Counter(operation.get("description", "") for operation in operations)
    for operation in operations:
        said = operation.get("description", "")
        verb = next((words for name, words in _VERBS.items() if operation["operationId"].endswith(f"_{name}")), "")
        if described[said] > 1 and verb:
            operation.setdefault("summary", verb)
        elif said:
            first = said.split("\n\n")[0].replace("\n", " ").split(". ")[0]
            operation.setdefault("summary", first.rstrip("."))
    return result


@cache
def document() -> Document:
    """Return the OpenAPI document, which is the same for every caller.
    It is generated once per process, which takes a second.
    """
    generator: Any = SchemaGenerator
    found: Document = generator().get_schema(request=None, public=True)
    return found


class KeptGenerator(SchemaGenerator):
    def get_schema(self, request: Any = None, public: bool = False) -> Document:
        return document()
