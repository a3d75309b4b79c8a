"""Idempotency-Key: a POST sent twice within 24 hours is executed once; the repetition gets the same response."""

from __future__ import annotations

import datetime as dt
import hashlib
import json

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from panel.accounts.models import User
from panel.api.models import IdempotencyRecord
from panel.api.problems import ApiError

HEADER = "HTTP_IDEMPOTENCY_KEY"
KEPT = dt.timedelta(hours=24)
ABANDONED = dt.timedelta(minutes=2)  # no request takes this long: its process died before the response
_KEPT_HEADERS = ("Location", "ETag", "Content-Type")
_MAX_KEY = 255


class Replay(Exception):
    """Raised for a repeated request, which is not executed again; `response` is the response to the first request."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__("replayed")
        self.response = response


def _fingerprint(request: Request) -> str:
    digest = hashlib.sha256()
    for part in (request.method or "", request._request.get_full_path()):
        digest.update(part.encode() + b"\0")
    digest.update(request._request.body)
    return digest.hexdigest()


def claim(request: Request, user: User) -> IdempotencyRecord | None:
    """Reserve the request's Idempotency-Key; return the record that will store the response, or None without a key.

    Raises Replay if the response to an earlier request with this key is stored. Raises ApiError if the key is invalid,
    was used for a different request, or belongs to a request in progress.
    """
    key = request.META.get(HEADER)
    if key is None or request.method != "POST":
        return None
    if not key.isprintable() or not key.isascii() or not 0 < len(key) <= _MAX_KEY:
        detail = f"Send 1 to {_MAX_KEY} printable characters, for example a UUID."
        raise ApiError("malformed", detail, [{"pointer": "@Idempotency-Key", "detail": detail}])
    IdempotencyRecord.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    fingerprint = _fingerprint(request)
    try:
        with transaction.atomic():
            return IdempotencyRecord.objects.create(user=user, key=key, fingerprint=fingerprint)
    except IntegrityError:
        first = IdempotencyRecord.objects.filter(user=user, key=key).first()
    if first is not None and first.fingerprint != fingerprint:
        raise ApiError("key-reused", "This Idempotency-Key was used for a different call within the last 24 hours.")
    if first is not None and first.status is None and _take_over(first):
        return first
    if first is None or first.status is None:
        raise ApiError(
            "in-progress", "The first call with this Idempotency-Key is still running. Repeat this call later."
        )
    response = HttpResponse(first.body, status=first.status, headers=first.headers)
    response.headers["Idempotency-Replayed"] = "true"
    raise Replay(response)


def _take_over(record: IdempotencyRecord) -> bool:
    """Take over the record of a request whose process died before it responded; return False if another caller did.

    `created_at` identifies the owner of the record. A first request that finishes late finds another `created_at`, and
    leaves the record alone.
    """
    now = timezone.now()
    left = IdempotencyRecord.objects.filter(pk=record.pk, status=None, created_at=record.created_at)
    if not left.filter(created_at__lt=now - ABANDONED).update(created_at=now):
        return False
    record.created_at = now
    return True


def _own(record: IdempotencyRecord) -> QuerySet[IdempotencyRecord]:
    """Select the record that this request reserved; select nothing if a repetition of the request has taken it over."""
    return IdempotencyRecord.objects.filter(pk=record.pk, created_at=record.created_at)


def release(record: IdempotencyRecord) -> None:
    _own(record).delete()


def keep(record: IdempotencyRecord, response: Response, hidden: tuple[str, ...]) -> None:
    """Store the response for repetitions of the request.
    After a server error, delete the reservation of the key instead, so that the client can repeat the request. `hidden`
    are fields that a repetition does not show.
    """
    if response.status_code >= 500:
        release(record)
        return
    response.add_post_render_callback(lambda rendered: _store(record, rendered, hidden))


def _without(body: str, hidden: tuple[str, ...]) -> str:
    """Return the JSON object `body` with null as the value of each field in `hidden`: one-time secrets."""
    data: dict[str, object] = json.loads(body)
    return json.dumps(data | {name: None for name in hidden if name in data})


def _store(record: IdempotencyRecord, response: HttpResponse, hidden: tuple[str, ...]) -> None:
    body = response.content.decode()
    _own(record).update(
        status=response.status_code,
        headers={name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers},
        body=_without(body, hidden) if hidden and body and response.status_code < 400 else body,
    )
