"""Reads of the audit trail: administrators see everything, others their teams' objects and their own account."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db.models import Model, Q, QuerySet

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, in_scope
from panel.audit.models import AuditEntry

# Path from each audited kind of object to its team; other kinds are visible to administrators only.
TEAM_PATHS = {
    "websites.site": "team",
    "websites.certificate": "team",
    "websites.serverblock": "site__team",
    "websites.location": "block__site__team",
    "websites.upstream": "site__team",
    "websites.phppool": "site__team",
    "deployments.revision": "site__team",
    "deployments.drift": "site__team",
    "deployments.deployment": "items__site__team",
    "benchmarks.scenario": "team",
    "benchmarks.run": "targets__site__team",
}


# Objects that may name sites of several teams: visible to users with access to all of them.
SHARED = {"deployments.deployment", "benchmarks.run"}


def audit_visible(user: User) -> QuerySet[AuditEntry]:
    """Entries that `user` may read. Deleted objects have no team, so their entries are for administrators."""
    entries = AuditEntry.objects.all()
    if not user.is_active or not in_scope(user, Action.VIEW):
        return entries.none()
    if user.is_admin:
        return entries
    mine = Q(actor=user)
    teams = user.teams.all()
    others = Team.objects.exclude(pk__in=teams)
    for label, path in TEAM_PATHS.items():
        model: type[Model] = apps.get_model(label)
        # Ids are stored as text, because they refer to several tables.
        rows = model._default_manager.filter(**{f"{path}__in": teams})
        if label in SHARED:
            rows = rows.exclude(pk__in=model._default_manager.filter(**{f"{path}__in": others}).values("pk"))
        ids = rows.values_list("pk", flat=True)
        mine |= Q(object_type=label, object_id__in=[str(pk) for pk in ids])
    return entries.filter(mine)


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
