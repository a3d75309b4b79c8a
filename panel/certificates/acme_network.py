"""HTTP client of the ACME protocol: it retries with new nonces, parses Retry-After headers, and recognizes responses
that no ACME server sent.
"""

from __future__ import annotations

import datetime as dt
import email.utils
from http import HTTPStatus
from typing import Any

import requests
from acme import client, messages

NONCE_TRIES = 20
MAX_PAUSE = dt.timedelta(days=8)
ACME_ERRORS = "urn:ietf:params:acme:error:"
PROBLEM = "application/problem+json"


class NoAcme(Exception):
    """Raised for a response that no ACME server sends, such as the error page of a proxy before the server."""


class Network(client.ClientNetwork):
    """HTTP client of certbot's library that keeps the `Retry-After` header of errors and retries with a new nonce (RFC
    8555 section 6.5). `received` describes the last response.
    """

    retry_after: str = ""
    received: str = "no response"

    def post(self, *args: Any, **kwargs: Any) -> requests.Response:
        for left in range(NONCE_TRIES, -1, -1):
            try:
                return self._post_once(*args, **dict(kwargs))
            except messages.Error as error:
                if error.code != "badNonce" or not left:
                    raise
        raise AssertionError

    def _send_request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:
        kwargs["allow_redirects"] = False
        response = super()._send_request(method, url, *args, **kwargs)
        self.retry_after = response.headers.get("Retry-After", "")
        kind = media_type(response)
        self.received = f"status {response.status_code}, {f'content type {kind}' if kind else 'no content type'}"
        if not is_acme(method, response):
            raise NoAcme
        return response


def is_acme(method: str, response: requests.Response) -> bool:
    """Return whether an ACME server can have sent the response: a success without an HTML page, or an ACME error.

    ACME errors are problem documents with an ACME type (RFC 8555 section 6.7). Problem documents of other types count
    as ACME errors if their status is below 500; with higher statuses, they may come from a proxy.
    """
    status, kind = response.status_code, media_type(response)
    if kind in ("text/html", "application/xhtml+xml") or 300 <= status < 400:
        return False
    if method == "HEAD":
        return response.ok
    try:
        body = response.json()
    except ValueError:
        body = None
    if status < 300:
        return kind != "application/json" or isinstance(body, dict)
    if status == HTTPStatus.CONFLICT:  # RFC 8555, 7.3.5: the key is another account's, which Location names
        return True
    if isinstance(body, dict) and str(body.get("type", "")).startswith(ACME_ERRORS):
        return True
    return body is not None and kind == PROBLEM and status < 500


def media_type(response: requests.Response) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()[:100]


def aware(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def retry_time(value: str, now: dt.datetime) -> dt.datetime | None:
    """Parse Retry-After (RFC 9110 section 10.2.3) as a time, at most eight days after `now`; None if invalid."""
    if not value:
        return None
    if value.strip().isdecimal():
        return now + min(dt.timedelta(seconds=min(int(value), 10**7)), MAX_PAUSE)
    try:
        found = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(now, min(aware(found), now + MAX_PAUSE))
