"""Reads of the audit trail: administrators see everything, others their teams' objects and their own account."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from panel.accounts.models import User
from panel.accounts.permissions import Action, in_scope, team_keys
from panel.audit.models import AuditEntry


def audit_visible(user: User) -> QuerySet[AuditEntry]:
    """Entries that `user` may read: for administrators all, for others their own actions and those on objects that
    belonged to one of their teams. Objects of several teams are for administrators.
    """
    entries = AuditEntry.objects.all()
    if not user.is_active or not in_scope(user, Action.VIEW):
        return entries.none()
    if user.is_admin:
        return entries
    return entries.filter(Q(actor=user) | Q(team__in=team_keys(user)))


@dataclass(frozen=True)
class Change:
    """One field of an entry: `before` or `after` is None if the object did not or does not exist."""

    field: str
    before: str | None
    after: str | None


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2)


def changes(entry: AuditEntry) -> list[Change]:
    """Changed fields; for a created or deleted object, all non-empty fields."""
    before, after = entry.before, entry.after
    found = []
    for name in [*(before or {}), *(name for name in (after or {}) if name not in (before or {}))]:
        old, new = (before or {}).get(name), (after or {}).get(name)
        if before is None or after is None:
            if (new if before is None else old) in (None, "", [], {}):
                continue
        elif old == new:
            continue
        found.append(
            Change(
                field=name.replace("_", " "),
                before=None if before is None or name not in before else _words(old),
                after=None if after is None or name not in after else _words(new),
            )
        )
    return found
