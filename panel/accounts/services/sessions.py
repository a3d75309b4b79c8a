"""Services to list a user's sessions, with browser and address, and to end single sessions."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from panel.accounts.models import User
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError
from panel.core.network import client_address

_KEY = "_where"
_SEEN_EVERY_S = 300  # minimum interval between updates of the last use
_MAX_AGENT = 300
# The first match is used, because browsers also name other browsers in User-Agent.
_BROWSERS = (("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
_SYSTEMS = (
    ("iPhone|iPad", "iOS"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


@dataclass(frozen=True)
class SessionLine:
    """One line in the list of a user's sessions.
    `name` identifies the session in URLs; the secret session key never leaves the panel.
    """

    name: str
    browser: str
    system: str
    address: str
    began_at: datetime | None
    seen_at: datetime | None
    is_current: bool


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def session_mark(request: HttpRequest) -> None:
    """Record the time and origin of a new session. Call this after `login`, which sets the session key."""
    request.session[_KEY] = {"began": timezone.now().timestamp()}
    session_seen(request)


def session_seen(request: HttpRequest) -> None:
    """Record the last use of the session with address and browser, at most every five minutes."""
    where, now = request.session.get(_KEY) or {}, timezone.now().timestamp()
    if now - where.get("seen", 0) > _SEEN_EVERY_S:
        agent = request.headers.get("User-Agent", "")[:_MAX_AGENT]
        request.session[_KEY] = where | {"seen": now, "address": client_address(request) or "", "agent": agent}


def _first(known: tuple[tuple[str, str], ...], agent: str) -> str:
    return next((name for pattern, name in known if re.search(pattern, agent)), "")


def _at(stamp: float | None) -> datetime | None:
    return datetime.fromtimestamp(stamp, UTC) if stamp else None


def _line(session: Session, where: dict[str, Any], current: str | None) -> SessionLine:
    agent = where.get("agent", "")
    return SessionLine(
        name=_name(session.session_key),
        browser=_first(_BROWSERS, agent) or agent.split("/")[0],
        system=_first(_SYSTEMS, agent),
        address=where.get("address", ""),
        began_at=_at(where.get("began")),
        seen_at=_at(where.get("seen")),
        is_current=session.session_key == current,
    )


def _sessions(user: User) -> list[tuple[Session, dict[str, object]]]:
    rows = Session.objects.filter(expire_date__gt=timezone.now()).iterator()
    found = ((row, row.get_decoded()) for row in rows)
    return [(row, data.get(_KEY) or {}) for row, data in found if data.get("_auth_user_id") == str(user.pk)]


def sessions_of(user: User, *, current: str | None) -> list[SessionLine]:
    """Return the sessions of `user`: first the session with the key `current`, then the others, last used first."""
    lines = [_line(row, where, current) for row, where in _sessions(user)]
    oldest = datetime.min.replace(tzinfo=UTC)
    return sorted(lines, key=lambda line: (line.is_current, line.seen_at or oldest), reverse=True)


def session_end(*, actor: User, name: str) -> None:
    """End the session of `actor` with this `name`. Raises ApplicationError if the session has already ended."""
    row = next((row for row, _where in _sessions(actor) if _name(row.session_key) == name), None)
    if row is None:
        raise ApplicationError("This session has already ended.", code="gone")
    row.delete()
    audit_record(actor=actor, action="session.end", target=actor)
