"""Weak ETags from `row_version`, and If-Match against lost updates (RFC 9110 sections 8.8 and 13)."""

from __future__ import annotations

import re
from typing import Any

from rest_framework.request import Request

from panel.api.problems import ApiError

_TAG = re.compile(r'(?:W/)?"(\d{1,9})"')


def etag_of(instance: Any) -> str:
    return f'W/"{instance.row_version}"'


def headers_of(instance: Any) -> dict[str, str]:
    return {"ETag": etag_of(instance)}


def _versions(raw: str) -> set[int]:
    """Return the versions in a header's list of ETags; ETags in another format match nothing."""
    found = (_TAG.fullmatch(part.strip()) for part in raw.split(","))
    return {int(match[1]) for match in found if match}


def is_fresh(request: Request, instance: Any) -> bool:
    """Return whether If-None-Match contains the object's current version or `*`."""
    raw = request.META.get("HTTP_IF_NONE_MATCH", "")
    return raw.strip() == "*" or instance.row_version in _versions(raw)


def expected_version(request: Request, instance: Any) -> int | None:
    """Return the version in If-Match, for the service to compare with the row; None without the header or with `*`.
    Raises ApiError if If-Match does not contain the current version.
    """
    raw = request.META.get("HTTP_IF_MATCH")
    if raw is None or raw.strip() == "*":
        return None
    if instance.row_version not in _versions(raw):
        detail = (
            f"The current version is {etag_of(instance)}. Nothing was changed. Read the object again, then "
            "repeat your change."
        )
        raise ApiError("precondition", detail, [{"pointer": "@If-Match", "detail": detail}])
    version: int = instance.row_version
    return version
