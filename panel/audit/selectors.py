"""Reading the audit trail: administrators all of it, others what concerns their teams' objects and themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db.models import Model, Q, QuerySet

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, in_scope
from panel.audit.models import AuditEntry

# How each audited kind of object leads to the team that owns it; what is not listed concerns administrators only.
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


# What may be about sites of several teams, and names all of them: for those who may see them all.
SHARED = {"deployments.deployment", "benchmarks.run"}


def audit_visible(user: User) -> QuerySet[AuditEntry]:
    """The entries that `user` may read. An object that is gone has no team left: administrators only."""
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
        # Ids are stored as text: they name rows of many tables.
        rows = model._default_manager.filter(**{f"{path}__in": teams})
        if label in SHARED:
            rows = rows.exclude(pk__in=model._default_manager.filter(**{f"{path}__in": others}).values("pk"))
        ids = rows.values_list("pk", flat=True)
        mine |= Q(object_type=label, object_id__in=[str(pk) for pk in ids])
    return entries.filter(mine)


@dataclass(frozen=True)
class Change:
    """One field of an entry: `before` or `after` is None where the object did or does not exist."""

    field: str
    before: str | None
    after: str | None


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, indent=2)


def changes(entry: AuditEntry) -> list[Change]:
    """The fields that differ; for something made or deleted, all that were not empty."""
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
