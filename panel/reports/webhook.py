"""A report by webhook: JSON, signed with HMAC-SHA256 over time and body.

    Paddock-Timestamp: 1764000000
    Paddock-Signature: v1=hex(hmac_sha256(secret, "1764000000." + body))

A receiver recomputes the signature over the raw body and refuses old timestamps. What it answers beyond its status is
neither read nor kept: a webhook must not show what stands behind an address (docs/threats.md, SSRF).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import json
import socket
import ssl
import threading
import time
from typing import Any

from panel.core.errors import ApplicationError
from panel.reports.mail import Refused, Unreachable, report_url
from panel.reports.models import Delivery
from panel.reports.targets import WebhookUrl, check_url, resolve

TIMEOUT_S = 10.0  # of each step: connecting, the handshake, the answer
DEADLINE_S = 30.0  # of all of it, however slowly somebody answers
MOST_BYTES = 64 * 1024
FORMAT = 1
_AGAIN = {408, 409, 425, 429}


def send(row: Delivery) -> str:
    """What was answered, in words. Raises Refused or Unreachable."""
    schedule = row.report.schedule
    if schedule is None or not schedule.webhook_secret:
        raise Refused("The schedule was deleted, and with it the secret for the signature.")
    if row.target != schedule.webhook_url:
        raise Refused("The schedule has another URL now; its secret signs for that URL only. Send the report again.")
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
        status = _post(url, resolve(url), headers, body)
    except ApplicationError as error:
        raise (Unreachable if error.retry else Refused)(error.message) from error
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"The webhook is not reachable: {error or type(error).__name__}") from error
    return _judged(status)


def signature(secret: str, stamp: str, body: bytes) -> str:
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"v1={digest}"


def body_of(row: Delivery) -> bytes:
    """The top of the report; all of it is at the address that `api` names. Too long a list is cut."""
    content = row.report.content
    lists: dict[str, list[str]] = {key: list(content[key]) for key in ("changes", "around", "notes", "warnings")}
    while True:
        body = json.dumps(_message(row, lists), ensure_ascii=False).encode()
        longest = max(lists, key=lambda key: len(lists[key]))
        if len(body) <= MOST_BYTES or not lists[longest]:
            return body
        lists[longest] = lists[longest][: len(lists[longest]) // 2]


def _message(row: Delivery, lists: dict[str, list[str]]) -> dict[str, Any]:
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


class _Plain(http.client.HTTPConnection):
    """To the one address that was judged, whatever the name means by now."""

    def __init__(self, url: WebhookUrl, address: str) -> None:
        super().__init__(url.host, url.port, timeout=TIMEOUT_S)
        self._address = (address, url.port)

    def connect(self) -> None:
        self.sock = socket.create_connection(self._address, TIMEOUT_S)


class _Tls(_Plain):
    """The certificate must be the name's, and one that this machine trusts."""

    def connect(self) -> None:
        super().connect()
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)


def _post(url: WebhookUrl, address: str, headers: dict[str, str], body: bytes) -> int:
    """The status of the answer. OSError, HTTPException."""
    connection = (_Tls if url.scheme == "https" else _Plain)(url, address)
    connection.connect()
    alarm = threading.Timer(DEADLINE_S, _cut, (connection.sock,))
    alarm.daemon = True
    alarm.start()
    try:
        connection.putrequest("POST", url.path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": url.authority, **headers, "Content-Length": str(len(body))}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        return connection.getresponse().status
    finally:
        alarm.cancel()
        connection.close()


def _cut(open_socket: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it may have ended by itself at that moment
        open_socket.shutdown(socket.SHUT_RDWR)
