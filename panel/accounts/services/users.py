"""Services for users and teams, which administrators manage, and for a user's own profile and password."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from panel.accounts.guessing import Guesser, Kind, guess, guesses_forget
from panel.accounts.models import AccountLink, Role, Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core.errors import ApplicationError

USER_FIELDS = ("username", "email", "role", "is_active", "timezone", "theme")


def set_password_checked(user: User, password: str) -> None:
    """Set the password of `user` without saving the row.
    Raises ValidationError at the field `password` if the password is too weak.
    """
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise ValidationError({"password": error.messages}) from error
    user.set_password(password)


def sessions_end(user: User, *, keep: str | None = None) -> int:
    """End all sessions of `user` except the one with the key `keep`; return the number of ended sessions."""
    ended = 0
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator():
        if session.session_key != keep and session.get_decoded().get("_auth_user_id") == str(user.pk):
            session.delete()
            ended += 1
    return ended


def sessions_end_others(*, actor: User, keep: str | None) -> int:
    """End all sessions of the actor except the one with the key `keep`; return the number of ended sessions."""
    ended = sessions_end(actor, keep=keep)
    audit_record(actor=actor, action="session.end", target=actor, after={"ended": ended})
    return ended


def session_store(key: str | None = None) -> SessionBase:
    store: SessionBase = import_module(settings.SESSION_ENGINE).SessionStore(key)
    return store


def _assign(user: User, values: dict[str, object]) -> None:
    unknown = set(values) - set(USER_FIELDS)
    if unknown:
        raise TypeError(f"unknown fields of a user: {sorted(unknown)}")
    for name, value in values.items():
        setattr(user, name, value)


def _keep_an_admin(user: User) -> None:
    """Raise ApplicationError if no active administrator would remain after the change of `user`."""
    others = User.objects.filter(role=Role.ADMIN, is_active=True).exclude(pk=user.pk)
    if (user.role != Role.ADMIN or not user.is_active) and not others.exists():
        raise ApplicationError(
            f"{user.username} is the last administrator. Create another administrator first.",
            field="role",
            code="last_admin",
        )


def links_end(user: User) -> None:
    """Make the unused one-time links of `user` invalid."""
    AccountLink.objects.filter(user=user, used_at=None).update(used_at=timezone.now())


def user_create(*, actor: User, username: str, password: str | None, teams: Iterable[Team] = (), **values: Any) -> User:
    """Create an account. Without a password (None), the user sets a password by a one-time link before signing in."""
    require(actor, Action.ADMINISTER)
    user = User(username=username, timezone=actor.timezone)  # a likely default; users can change it
    _assign(user, values)
    with transaction.atomic():
        if password is None:
            user.set_unusable_password()
        else:
            set_password_checked(user, password)
        user.full_clean()
        user.save()
        user.teams.set(teams)
        audit_record(actor=actor, action="user.create", target=user, after=snapshot(user))
    return user


def user_update(
    *, actor: User, user: User, teams: Iterable[Team] | None = None, password: str = "", **values: Any
) -> User:
    """Change a user's fields, teams, and, if given, the password.

    A new password or a deactivation ends all sessions of the user. A new password, a deactivation, or a new email
    address ends the user's unused links.
    """
    require(actor, Action.ADMINISTER)
    with transaction.atomic():
        user = User.objects.select_for_update().get(pk=user.pk)
        before = snapshot(user)
        _assign(user, values)
        if password:
            set_password_checked(user, password)
        user.full_clean()
        _keep_an_admin(user)
        user.save()
        if teams is not None:
            user.teams.set(teams)
        if password or not user.is_active:
            sessions_end(user)
        if password or not user.is_active or before["email"] != user.email:
            links_end(user)
        after = snapshot(user)
        if password:
            guesses_forget(user)
            after["password"] = "(changed)"  # noqa: S105 - a mark
        audit_record(actor=actor, action="user.update", target=user, before=before, after=after)
    return user


def user_delete(*, actor: User, user: User) -> None:
    """Delete the account and its sessions; audit entries keep its name.
    Raises ApplicationError for the actor's own account, and for the last administrator.
    """
    require(actor, Action.ADMINISTER)
    if user.pk == actor.pk:
        raise ApplicationError("You cannot delete your own account. Ask another administrator.", code="own_account")
    with transaction.atomic():
        user.is_active = False
        _keep_an_admin(user)
        sessions_end(user)
        audit_record(actor=actor, action="user.delete", target=user, before=snapshot(user))
        user.delete()


def profile_update(*, actor: User, email: str, timezone_name: str, theme: str, mail_alerts: bool) -> User:
    if mail_alerts and not email:
        raise ApplicationError("Enter the email address for alerts.", field="email", code="required")
    with transaction.atomic():
        before = snapshot(actor)
        actor.email, actor.timezone, actor.theme, actor.mail_alerts = email, timezone_name, theme, mail_alerts
        actor.full_clean()
        actor.save(update_fields=["email", "timezone", "theme", "mail_alerts"])
        if before["email"] != email:
            links_end(actor)
        audit_record(actor=actor, action="user.profile", target=actor, before=before, after=snapshot(actor))
    return actor


def password_change(*, actor: User, current: str, new: str, guesser: Guesser, session_key: str | None) -> None:
    """Change the password of `actor` and end all other sessions of the account.

    Raises ApplicationError if `current` is wrong, TooManyGuesses after too many wrong attempts.
    """
    if not guess(guesser, kind=Kind.PASSWORD, account=actor, check=lambda: actor.check_password(current)):
        raise ApplicationError("The current password is wrong.", field="current", code="wrong_password")
    with transaction.atomic():
        set_password_checked(actor, new)
        actor.save(update_fields=["password"])
        links_end(actor)
        sessions_end(actor, keep=session_key)
        audit_record(actor=actor, action="user.password", target=actor)


def team_create(*, actor: User, name: str, slug: str, members: Iterable[User] = ()) -> Team:
    require(actor, Action.ADMINISTER)
    team = Team(name=name, slug=slug)
    with transaction.atomic():
        team.full_clean()
        team.save()
        team.members.set(members)
        audit_record(actor=actor, action="team.create", target=team, after=_with_members(team))
    return team


def team_update(*, actor: User, team: Team, name: str, slug: str, members: Iterable[User] | None = None) -> Team:
    """Change a team. `members` is the complete new list; None keeps the members."""
    require(actor, Action.ADMINISTER)
    with transaction.atomic():
        before = _with_members(team)
        team.name, team.slug = name, slug
        team.full_clean()
        team.save()
        if members is not None:
            team.members.set(members)
        audit_record(actor=actor, action="team.update", target=team, before=before, after=_with_members(team))
    return team


def _with_members(team: Team) -> dict[str, object]:
    return snapshot(team) | {"members": list(team.members.order_by("username").values_list("username", flat=True))}


def team_delete(*, actor: User, team: Team) -> None:
    require(actor, Action.ADMINISTER)
    sites = list(team.sites.values_list("name", flat=True)[:4])
    certificates = list(team.certificates.values_list("name", flat=True)[:4])
    if sites or certificates:
        raise ApplicationError(
            f"{team.name} still owns {', '.join(sites + certificates)}. Move or delete them first.", code="in_use"
        )
    with transaction.atomic():
        audit_record(actor=actor, action="team.delete", target=team, before=_with_members(team))
        team.delete()
