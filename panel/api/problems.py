"""Errors of the API as problem details (RFC 9457): type, title, status, detail, errors, request_id.

`errors` has one entry for each error: `pointer` is its place (a JSON pointer into the body, `?name` for a query
parameter, `@Name` for a header, "" for the whole request), `detail` describes the problem and a valid value.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.core import signals
from django.core.exceptions import PermissionDenied, RequestDataTooBig, ValidationError
from django.http import Http404, HttpResponse, JsonResponse
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from panel.accounts.guessing import TooManyGuesses
from panel.core import database
from panel.core.errors import NULL_WORDS, ApplicationError, is_null_refused
from panel.core.middleware import current_request_id
from panel.remote.errors import RemoteError

logger = logging.getLogger(__name__)
CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "/api/v1/problems/"


@dataclass(frozen=True)
class Kind:
    """An entry of the error catalog (docs/api/errors.md): HTTP status, title, and advice for the caller."""

    status: int
    title: str
    advice: str


CATALOGUE = {
    "malformed": Kind(400, "The request cannot be parsed", "Send JSON that matches the schema."),
    "parameter": Kind(400, "A query parameter is not valid", "The API rejects unknown parameters."),
    "unauthenticated": Kind(
        401, "Authentication is required", "Send the header Authorization: Bearer with a valid token."
    ),
    "forbidden": Kind(
        403, "Permission denied", "Ask for another role, or create a token with the scope that the error names."
    ),
    "confirm": Kind(403, "Confirm your password", "Open /confirm/ in your browser session and repeat the call."),
    "not-found": Kind(404, "Not found", "The object does not exist, or it belongs to a team that you are not in."),
    "method": Kind(405, "This URL does not allow this method", "The Allow header lists the allowed methods."),
    "not-acceptable": Kind(406, "This response format is not available", "Send Accept: application/json."),
    "conflict": Kind(
        409,
        "The current state of the object does not allow this call",
        "Read the object again, then decide whether to repeat the call.",
    ),
    "in-progress": Kind(
        409, "The same call is still running", "Wait until the first call with this Idempotency-Key has ended."
    ),
    "gone": Kind(
        410, "This object is no longer available", "The object was already used, was revoked, or has expired."
    ),
    "precondition": Kind(
        412, "The object changed since you read it", "Read the object again and repeat the call with its new ETag."
    ),
    "too-large": Kind(413, "The request is too large", "Send less at once; the error names the limit."),
    "media-type": Kind(415, "This content type is not supported", "Send Content-Type: application/json."),
    "invalid": Kind(422, "Some values are not valid", "Each entry in errors names a field and the valid values."),
    "key-reused": Kind(422, "This Idempotency-Key belongs to another call", "Use a new key for each call."),
    "throttled": Kind(429, "Too many attempts", "Wait for the seconds in Retry-After, then repeat the call."),
    "internal": Kind(
        500, "Paddock hit an internal error", "Report the request ID; it identifies the cause in the panel's log."
    ),
    "unavailable": Kind(503, "The host or a service is not reachable", "Try again later."),
}
_BY_STATUS = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method",
    406: "not-acceptable",
    409: "conflict",
    410: "gone",
    412: "precondition",
    413: "too-large",
    415: "media-type",
    422: "invalid",
    429: "throttled",
    503: "unavailable",
}
# ApplicationError codes of services that do not concern a value in the request.
_BY_CODE = {
    "conflict": "conflict",
    "in_use": "conflict",
    "last_admin": "conflict",
    "own_account": "conflict",
    "drift": "conflict",
    "busy": "conflict",
    "gone": "gone",
    "not_found": "not-found",
    "session_required": "forbidden",
    "unreachable": "unavailable",
}

Errors = list[dict[str, str]]


class ApiError(Exception):
    """Error that an API view raises.
    `kind` is a key of the error catalog; `errors` are {"pointer", "detail"} for each place in the request that is
    wrong.
    """

    def __init__(self, kind: str, detail: str, errors: Errors | None = None) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = errors or []


def parameter_error(name: str, detail: str) -> ApiError:
    return ApiError("parameter", detail, [{"pointer": f"?{name}", "detail": detail}])


def kind_of_status(status: int) -> str:
    return _BY_STATUS.get(status, "internal" if status >= 500 else "malformed")


def body_of(kind: str, detail: str, errors: Errors | None = None) -> dict[str, object]:
    row = CATALOGUE[kind]
    return {
        "type": f"{TYPE_PREFIX}{kind}/",
        "title": row.title,
        "status": row.status,
        "detail": detail or row.advice,
        "errors": errors or [],
        "request_id": current_request_id(),
    }


def plain_response(kind: str, detail: str = "") -> HttpResponse:
    """Return an error as problem details (RFC 9457), for code outside the API's views. `kind` is a key of the error
    catalog.
    """
    return JsonResponse(body_of(kind, detail), status=CATALOGUE[kind].status, content_type=CONTENT_TYPE)


def _response(kind: str, detail: str, errors: Errors | None = None, headers: dict[str, str] | None = None) -> Response:
    return Response(
        body_of(kind, detail, errors), status=CATALOGUE[kind].status, headers=headers, content_type=CONTENT_TYPE
    )


def _escaped(part: object) -> str:
    """Escape `~` in a part of a JSON pointer (RFC 6901 section 3).

    Slashes stay, because services use them to separate the parts of a place, as in blocks/0/root.
    """
    return str(part).replace("~", "~0")


def flatten(detail: Any, pointer: str = "") -> Errors:
    """Convert nested errors of DRF to a flat list of {pointer, detail}, with JSON pointers."""
    if isinstance(detail, dict):
        found: Errors = []
        for name, inner in detail.items():
            here = pointer if name in ("non_field_errors", "__all__") else f"{pointer}/{_escaped(name)}"
            found += flatten(inner, here)
        return found
    if isinstance(detail, list):
        found = []
        for index, inner in enumerate(detail):
            nested = isinstance(inner, dict | list)
            found += flatten(inner, f"{pointer}/{index}" if nested else pointer)
        return found
    return [{"pointer": pointer, "detail": str(detail)}]


def _summary(errors: Errors) -> str:
    if len(errors) == 1:
        return errors[0]["detail"]
    return f"{len(errors)} values are not valid. Nothing was changed."


def _at(place: str, fault: ValidationError) -> Errors:
    """Convert the error `fault` at `place` (a field, or a place such as blocks/0/root) to a list of {"pointer",
    "detail"}.

    If `fault.params["field"]` names a field of the JSON object at `place`, the pointer leads to that field.
    """
    member = str((getattr(fault, "params", None) or {}).get("field", ""))
    where = {place: {member: [text.removeprefix(f"{member}: ") for text in fault.messages]}}
    return flatten(where if member else {place: list(fault.messages)})


def _of_validation(error: ValidationError) -> Response:
    """Convert Django's ValidationError, which services raise, to a 422 response.

    The keys of the error are names of fields, or places in a definition such as blocks/0/root.
    """
    if not hasattr(error, "error_dict"):
        errors = flatten(list(error.messages))
    else:
        errors = [
            found for place, faults in error.error_dict.items() for fault in faults for found in _at(place, fault)
        ]
    return _response("invalid", _summary(errors), errors)


def _of_application(error: ApplicationError, *, had_precondition: bool) -> Response:
    kind = _BY_CODE.get(error.code, "invalid")
    if isinstance(error, RemoteError):
        kind = "unavailable" if error.retry else "conflict"
    if kind == "conflict" and had_precondition and error.code == "conflict":
        kind = "precondition"
    errors = [{"pointer": f"/{error.field}" if error.field else "", "detail": error.message}]
    return _response(kind, error.message, errors)


def _of_framework(error: exceptions.APIException) -> Response:
    if isinstance(error, exceptions.ValidationError):
        errors = flatten(error.detail)
        return _response("invalid", _summary(errors), errors)
    headers = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = str(challenge)
    if wait := getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait))
    return _response(kind_of_status(error.status_code), str(error.detail), headers=headers)


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """Convert every exception of an API view to a response.
    Unexpected exceptions are logged and become a response with status 500 without details.
    """
    set_rollback()
    if isinstance(error, ApiError):
        return _response(error.kind, error.detail, error.errors)
    if isinstance(error, RequestDataTooBig):
        return _response("too-large", "")
    if isinstance(error, Http404):
        return _response("not-found", "")
    if isinstance(error, PermissionDenied):
        return _response("forbidden", str(error))
    if isinstance(error, ValidationError):
        return _of_validation(error)
    if isinstance(error, ApplicationError):
        return _of_application(error, had_precondition="HTTP_IF_MATCH" in context["request"].META)
    if isinstance(error, TooManyGuesses):
        return _response("throttled", error.message, headers={"Retry-After": str(error.retry_after)})
    if isinstance(error, exceptions.APIException):
        return _of_framework(error)
    if is_null_refused(error):
        return _response("invalid", NULL_WORDS)
    if database.is_away(error):
        headers = {"Retry-After": str(database.RETRY_AFTER_S)}
        return _response("unavailable", "The panel's database is not reachable. Repeat the call later.", None, headers)
    request = context["request"]._request
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    signals.got_request_exception.send(sender=context["view"].__class__, request=request)
    return _response("internal", "")
