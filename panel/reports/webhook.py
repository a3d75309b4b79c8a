"""Delivery of reports by webhook: JSON, signed with HMAC-SHA256 over time and body.

    Paddock-Timestamp: 1764000000
    Paddock-Signature: v1=hex(hmac_sha256(secret, "1764000000." + body))

A receiver computes the signature of the raw body and rejects old timestamps. Paddock uses only the status of the
receiver's response, because the webhook's URL can be an internal URL, whose content must stay secret (docs/threats.md,
SSRF).
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import time

from panel.core.errors import ApplicationError
from panel.core.mail import Refused, Unreachable
from panel.core.webhooks import check_url, post, resolve
from panel.reports.mail import report_url
from panel.reports.models import Delivery

MOST_BYTES = 64 * 1024
FORMAT = 1
_AGAIN = {408, 409, 425, 429}


def send(row: Delivery) -> str:
    """Send the webhook of a delivery; return the result as a sentence. Raises Refused or Unreachable."""
    schedule = row.report.schedule
    if schedule is None or not schedule.webhook_secret:
        raise Refused(
            "Paddock cannot sign this delivery: its schedule was deleted or has no secret. If the schedule exists, "
            "enter a webhook secret in the schedule and send the report again."
        )
    if row.target != schedule.webhook_url:
        raise Refused(
            "The schedule has a new URL. The secret of the schedule signs deliveries to the "
            "new URL only. Send the report again."
        )
    body = body_of(row)
    stamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Paddock",
        "Paddock-Event": "report",
        "Paddock-Delivery": str(row.uuid),
        "Paddock-Timestamp": stamp,
        "Paddock-Signature": signature(schedule.webhook_secret, stamp, body),
    }
    try:
        url = check_url(row.target)
        status = post(url, resolve(url), headers, body)
    except ApplicationError as error:
        raise (Unreachable if error.retry else Refused)(error.message) from error
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"The webhook is not reachable: {error or type(error).__name__}") from error
    return _judged(status)


def signature(secret: str, stamp: str, body: bytes) -> str:
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"v1={digest}"


def body_of(row: Delivery) -> bytes:
    """Return the webhook's body as JSON: headline and changes of the report, and the URL path of the complete report in
    the API.
    Long lists are shortened to keep the body below MOST_BYTES.
    """
    content = row.report.content
    lists: dict[str, list[str]] = {key: list(content[key]) for key in ("changes", "around", "notes", "warnings")}
    while True:
        body = json.dumps(_message(row, lists), ensure_ascii=False).encode()
        longest = max(lists, key=lambda key: len(lists[key]))
        if len(body) <= MOST_BYTES or not lists[longest]:
            return body
        lists[longest] = lists[longest][: len(lists[longest]) // 2]


def _message(row: Delivery, lists: dict[str, list[str]]) -> dict[str, object]:
    report = row.report
    return {
        "format": FORMAT,
        "event": "report",
        "delivery": str(row.uuid),
        "schedule": report.schedule.name if report.schedule else None,
        "report": {
            "uuid": str(report.uuid),
            "title": report.title,
            "outcome": report.outcome,
            "headline": report.headline[:4000],
            "created_at": report.created_at.isoformat(),
            **lists,
            "url": report_url(report),
            "api": f"/api/v1/reports/{report.uuid}/",
        },
    }


def _judged(status: int) -> str:
    if 200 <= status < 300:
        return f"The webhook responded with status {status}."
    if 300 <= status < 400:
        raise Refused(
            f"The webhook responded with status {status}. Paddock does not follow redirects; enter the "
            "target of the redirect."
        )
    words = f"The webhook responded with status {status}."
    raise Unreachable(words) if status >= 500 or status in _AGAIN else Refused(words)
