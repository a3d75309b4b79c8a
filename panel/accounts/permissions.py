"""Who may do what to whose objects: the one place that decides, for pages, API and tasks alike.

Roles: admins do everything; operators change, deploy and measure what belongs to their teams; viewers read it.
A token may do no more than its scopes allow and its owner may do.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet

from panel.accounts.models import Role, Scope, Team, User

M = TypeVar("M", bound=Model)


class Action(StrEnum):
    VIEW = "view"
    CHANGE = "change"  # sites, blocks, certificates, scenarios
    DEPLOY = "deploy"
    BENCHMARK = "benchmark"
    ADMINISTER = "administer"  # hosts, users, teams, raw snippets, keys


_OPERATOR = {Action.VIEW, Action.CHANGE, Action.DEPLOY, Action.BENCHMARK}
SCOPE_OF = {
    Action.VIEW: Scope.READ,
    Action.CHANGE: Scope.SITES,
    Action.DEPLOY: Scope.DEPLOY,
    Action.BENCHMARK: Scope.BENCHMARK,
    Action.ADMINISTER: Scope.ADMIN,
}


def in_scope(user: User, action: Action) -> bool:
    """Whether the token that `user` came with reaches so far; a person in a session has no such limit.

    The admin scope reaches everything, and whatever lets change something lets see it.
    """
    if user.scopes is None or Scope.ADMIN in user.scopes:
        return True
    return bool(user.scopes) if action is Action.VIEW else SCOPE_OF[action] in user.scopes


def may(user: User, action: Action, team: Team | None = None) -> bool:
    """Whether `user` may do `action` to what belongs to `team` (None: to what belongs to no team)."""
    if not user.is_active or not in_scope(user, action):
        return False
    if user.role == Role.ADMIN:
        return True
    allowed = _OPERATOR if user.role == Role.OPERATOR else {Action.VIEW}
    if action not in allowed:
        return False
    return team is None or user.teams.filter(pk=team.pk).exists()


def require(user: User, action: Action, team: Team | None = None) -> None:
    """Raises PermissionDenied with words for a person unless `may`."""
    if not in_scope(user, action):
        raise PermissionDenied(
            f"This token lacks the scope {SCOPE_OF[action].value}. Create a token with this scope under "
            "Settings, API tokens."
        )
    if not may(user, action, team):
        whose = f" in the team {team}" if team else ""
        # What operators may do, one of them can do as well; only administrators give roles and teams.
        can = "an operator of the team or an administrator" if team and action in _OPERATOR else "an administrator"
        raise PermissionDenied(
            f"Your role ({user.get_role_display()}) does not allow you to {action.value} this{whose}. Ask {can}."
        )


def require_writing(user: User) -> None:
    """For what belongs to the caller alone and no action names: a token of scope read changes nothing at all."""
    if user.scopes is not None and not set(user.scopes) - {Scope.READ}:
        raise PermissionDenied("This token may only read. Make one that has another scope under Settings, API tokens.")


def require_each(user: User, action: Action, teams: Iterable[Team | None]) -> None:
    """`require` for what belongs to several teams: all of them or PermissionDenied. Each team is asked for once."""
    for team in dict.fromkeys(teams):
        require(user, action, team)


def visible(queryset: QuerySet[M], user: User, *, team_path: str = "team") -> QuerySet[M]:
    """The rows of `queryset` that `user` may view; `team_path` leads from a row to its team."""
    if not user.is_active or not in_scope(user, Action.VIEW):
        return queryset.none()
    if user.role == Role.ADMIN:
        return queryset
    return queryset.filter(**{f"{team_path}__in": user.teams.all()})
