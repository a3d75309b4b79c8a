"""Services that create the first account, on a page with a secret URL that is stored in a file on the panel's host.

The page works until an account exists.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from panel.accounts.models import Role, SetupSecret, Team, User
from panel.accounts.services.digests import secret_digest
from panel.accounts.services.users import set_password_checked
from panel.audit.services import audit_record, snapshot
from panel.core.errors import ApplicationError


def setup_link_path() -> Path:
    """Return the path of the file that contains the setup page's path; only the panel's system account can read it."""
    return Path(settings.HOME) / "secrets" / "setup_link"


def _write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable only by the panel's system account."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    draft.replace(path)


def setup_link_ensure(*, renew: bool = False) -> str:
    """Return the path of the setup page, and store it in a file. If an account exists, delete the file and return "".

    The former path is kept if it is valid and `renew` is false, so that a second start of the panel does not invalidate
    the printed link.
    """
    if User.objects.exists():
        setup_link_path().unlink(missing_ok=True)
        return ""
    if not renew:
        try:
            path = setup_link_path().read_text(encoding="ascii").strip()
        except FileNotFoundError:
            path = ""
        if setup_is_open(path.rstrip("/").rsplit("/", 1)[-1]):
            return path
    secret = secrets.token_urlsafe(32)
    with transaction.atomic():
        SetupSecret.objects.filter(used_at=None).delete()
        SetupSecret.objects.create(digest=secret_digest(secret))
        path = f"/setup/{secret}/"
        _write_private(setup_link_path(), path + "\n")
    return path


def setup_is_open(secret: str) -> bool:
    """Return whether `secret` permits the creation of the first account now."""
    return (
        not User.objects.exists()
        and SetupSecret.objects.filter(digest=secret_digest(secret), used_at__isnull=True).exists()
    )


def setup_complete(*, secret: str, username: str, password: str, email: str = "", timezone_name: str = "UTC") -> User:
    """Create the first administrator and the first team; return the administrator.

    Of two simultaneous calls, at most one succeeds. Raises ValidationError for invalid values. Raises
    ApplicationError with the code `gone` if the secret is wrong or used, or if an account already exists.
    """
    with transaction.atomic():
        claimed = SetupSecret.objects.filter(digest=secret_digest(secret), used_at=None).update(used_at=timezone.now())
        if not claimed or User.objects.exists():
            raise ApplicationError(
                "This setup link is not valid, or the first account already exists. Sign in, or create a new link with "
                f"{settings.COMMAND} make_setup_link.",
                code="gone",
            )
        user = User(username=username, email=email, role=Role.ADMIN, timezone=timezone_name)
        set_password_checked(user, password)
        user.full_clean()
        user.save()
        team, _created = Team.objects.get_or_create(slug="main", defaults={"name": "Main"})
        user.teams.add(team)
        audit_record(actor=user, action="user.setup", target=user, after=snapshot(user))
    setup_link_path().unlink(missing_ok=True)
    return user
