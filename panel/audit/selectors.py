"""Selectors of the audit log.

Administrators see all entries. Other users see their own actions, and entries about objects of their teams.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from panel.accounts.models import User
from panel.accounts.permissions import Action, in_scope, team_keys
from panel.audit.models import AuditEntry


def audit_visible(user: User) -> QuerySet[AuditEntry]:
    """Select the entries that `user` is allowed to read. Administrators read all.
    Other users read their own actions, and actions on objects that belonged to one of their teams. Only administrators
    read actions of others on objects of several teams.
    """
    entries = AuditEntry.objects.all()
    if not user.is_active or not in_scope(user, Action.VIEW):
        return entries.none()
    if user.is_admin:
        return entries
    return entries.filter(Q(actor=user) | Q(team__in=team_keys(user)))


@dataclass(frozen=True)
class Change:
    """Change of one field in an audit entry. `before` is None for a created object, `after` for a deleted one."""

    field: str
    before: str | None
    after: str | None


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2)


def changes(entry: AuditEntry) -> list[Change]:
    """Return the changed fields of an entry; for a created or deleted object, all of its non-empty fields."""
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
