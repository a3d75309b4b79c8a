"""Permissions: the only module that decides what a user or token may do, for pages, API and tasks.

Roles: administrators do everything; operators change, deploy and benchmark their teams' sites; viewers read them. A
token can do at most what its scopes and its owner's role allow.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet, prefetch_related_objects

from panel.accounts.models import Role, Scope, Team, User

M = TypeVar("M", bound=Model)


class Action(StrEnum):
    VIEW = "view"
    CHANGE = "change"  # sites, blocks, certificates, scenarios
    DEPLOY = "deploy"
    BENCHMARK = "benchmark"
    ADMINISTER = "administer"  # hosts, users, teams, raw directives, keys


_OPERATOR = {Action.VIEW, Action.CHANGE, Action.DEPLOY, Action.BENCHMARK}
SCOPE_OF = {
    Action.VIEW: Scope.READ,
    Action.CHANGE: Scope.SITES,
    Action.DEPLOY: Scope.DEPLOY,
    Action.BENCHMARK: Scope.BENCHMARK,
    Action.ADMINISTER: Scope.ADMIN,
}


def in_scope(user: User, action: Action) -> bool:
    """Return whether the scopes of `user`'s token permit `action`; always true in a session.

    The scope `admin` permits everything, and every scope permits reading.
    """
    if user.scopes is None or Scope.ADMIN in user.scopes:
        return True
    return bool(user.scopes) if action is Action.VIEW else SCOPE_OF[action] in user.scopes


def may(user: User, action: Action, team: Team | None = None) -> bool:
    """Return whether `user` may do `action` with objects of `team` (None: objects without a team)."""
    if not user.is_active or not in_scope(user, action):
        return False
    if user.role == Role.ADMIN:
        return True
    allowed = _OPERATOR if user.role == Role.OPERATOR else {Action.VIEW}
    if action not in allowed:
        return False
    return team is None or user.teams.filter(pk=team.pk).exists()


def require(user: User, action: Action, team: Team | None = None) -> None:
    """Raise PermissionDenied, with a message for the user, unless `may(user, action, team)` is true."""
    if not in_scope(user, action):
        raise PermissionDenied(
            f"This token lacks the scope {SCOPE_OF[action].value}. Create a token with this scope under "
            "Settings, API tokens."
        )
    if not may(user, action, team):
        raise PermissionDenied(_refusal(user.get_role_display(), action, team))


def _refusal(role: str, action: Action, team: Team | None) -> str:
    if team is None:
        return f"Your role ({role}) does not allow the action “{action.value}”. Ask an administrator."
    words = f"Your role ({role}) does not allow the action “{action.value}” in the team {team}."
    # An operator can help with actions of operators; only administrators assign roles and teams.
    if action in _OPERATOR:
        return f"{words} Ask an operator of the team or an administrator."
    return f"{words} Ask an administrator."


def require_writing(user: User) -> None:
    """Raise PermissionDenied if the request's token has only the scope `read`.

    Call this before changes of the caller's own data, which need no other permission.
    """
    if user.scopes is not None and not set(user.scopes) - {Scope.READ}:
        raise PermissionDenied(
            "This token can only read. Create a token with another scope under Settings, API tokens."
        )


def require_each(user: User, action: Action, teams: Iterable[Team | None]) -> None:
    """Raise PermissionDenied unless `user` may do `action` for every team in `teams`. Each team is checked once."""
    for team in dict.fromkeys(teams):
        require(user, action, team)


def team_keys(user: User) -> list[int]:
    """Return the primary keys of the teams of `user`; without a query after `teams_read`.

    Filter rows by these keys, not by a subquery. The database cannot estimate how many rows a subquery selects, so
    it could read a whole large table for a team with few rows.
    """
    if "teams" in getattr(user, "_prefetched_objects_cache", {}):
        return [team.pk for team in user.teams.all()]
    return list(user.teams.order_by().values_list("pk", flat=True))


def teams_read(user: User) -> None:
    """Load the teams of `user` once, for a page that needs them for many queries.
    Django discards the loaded teams when the teams of `user` change.
    """
    if not user.is_admin:
        prefetch_related_objects([user], "teams")


def visible(queryset: QuerySet[M], user: User, *, team_path: str = "team") -> QuerySet[M]:
    """Filter `queryset` to rows that `user` may view. `team_path` is the lookup path from a row to its team."""
    if not user.is_active or not in_scope(user, Action.VIEW):
        return queryset.none()
    if user.role == Role.ADMIN:
        return queryset
    return queryset.filter(**{f"{team_path}__in": team_keys(user)})


def teams_visible(user: User) -> QuerySet[Team]:
    """Return the teams that `user` may see: all for administrators, otherwise the user's own."""
    return Team.objects.all() if user.is_admin else user.teams.all()
