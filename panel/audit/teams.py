"""Teams of audited objects. Each entry stores its object's team, so that the queries of the audit log need no joins."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Model

# Attributes that lead from each kind of object to its team. Only administrators and the actor see entries of others.
_TEAM = {
    "websites.site": ("team_id",),
    "websites.accesslist": ("team_id",),
    "websites.headerset": ("team_id",),
    "websites.directiveset": ("team_id",),
    "websites.certificate": ("team_id",),
    "websites.serverblock": ("site", "team_id"),
    "websites.location": ("block", "site", "team_id"),
    "websites.upstream": ("site", "team_id"),
    "websites.phppool": ("site", "team_id"),
    "websites.streamserver": ("site", "team_id"),
    "fpm.fpmpool": ("site", "team_id"),
    "deployments.revision": ("site", "team_id"),
    "deployments.drift": ("site", "team_id"),
    "publishing.release": ("site", "team_id"),
    "publishing.publication": ("site", "team_id"),
    "benchmarks.scenario": ("team_id",),
}
# Kinds of objects that can have sites of several teams, with the lookup path to these teams.
_TEAMS = {
    "deployments.deployment": "items__site__team",
    "benchmarks.run": "targets__site__team",
}


def teams_of(targets: Iterable[Model]) -> list[int | None]:
    """Return, for each of the audited objects `targets` in order, the primary key of its team.
    None for an object without a team, or with several teams.
    """
    rows = list(targets)
    shared = {label: _of_shared(label, rows) for label in {row._meta.label_lower for row in rows} & set(_TEAMS)}
    return [_team(row, shared) for row in rows]


def _team(target: Model, shared: dict[str, dict[int, int | None]]) -> int | None:
    label = target._meta.label_lower
    if label in shared:
        return shared[label].get(target.pk)
    value: object = target if label in _TEAM else None
    for name in _TEAM.get(label, ()):
        value = getattr(value, name) if value is not None else None
    return value if isinstance(value, int) else None


def _of_shared(label: str, rows: list[Model]) -> dict[int, int | None]:
    """Return {primary key of an object: primary key of its team} for those of `rows` that belong to the model `label`.
    The value is None for an object without a team, or with several teams. One query.
    """
    mine = [row for row in rows if row._meta.label_lower == label]
    found: dict[int, set[int]] = {}
    pairs = type(mine[0])._default_manager.filter(pk__in=[row.pk for row in mine])
    for pk, team in pairs.order_by().values_list("pk", _TEAMS[label]).distinct():
        found.setdefault(pk, set()).add(team)
    return {pk: teams.pop() if len(teams) == 1 else None for pk, teams in found.items()}
