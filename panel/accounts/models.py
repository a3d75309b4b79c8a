"""Models of users with one role each, teams that own sites, API tokens, saved views, and one-time links."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from panel.accounts.validators import (
    validate_addresses,
    validate_line,
    validate_scopes,
    validate_timezone,
    validate_username,
)
from panel.core.fields import EncryptedTextField
from panel.core.models import BaseModel


class Role(models.TextChoices):
    ADMIN = "admin", _("Administrator")  # everything, including raw directives and hosts
    OPERATOR = "operator", _("Operator")  # changes, deploys and measures the sites of their teams
    VIEWER = "viewer", _("Viewer")  # reads the sites of their teams


class Scope(models.TextChoices):
    """Permission of an API token; the owner's role limits it further."""

    READ = "read", _("Read")
    SITES = "sites", _("Change sites")
    DEPLOY = "deploy", _("Deploy")
    BENCHMARK = "benchmark", _("Run benchmarks")
    ADMIN = "admin", _("Administer")


class Theme(models.TextChoices):
    SYSTEM = "system", _("System default")
    LIGHT = "light", _("Light")
    DARK = "dark", _("Dark")


class Team(BaseModel):
    name = models.CharField(max_length=80, unique=True, validators=[validate_line])
    slug = models.SlugField(max_length=80, unique=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class UserManager(BaseUserManager["User"]):
    def create_user(self, username: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(username=self.model.normalize_username(username), **fields)
        user.set_password(password)
        user.full_clean()
        user.save(using=self._db)
        return user

    def get_by_natural_key(self, username: str | None) -> User:
        """Return the user with this name, ignoring case; raise DoesNotExist if there is none.
        User names are ASCII, and unique regardless of case (accounts_user_username_ci). Without the check for
        ASCII, PostgreSQL would match i to a dotless i.
        """
        if not username or not username.isascii():
            raise self.model.DoesNotExist
        return self.get(username__iexact=username)


class User(AbstractBaseUser, BaseModel):
    username = models.CharField(
        max_length=80,
        unique=True,
        validators=[validate_username],
        help_text=_("Letters, digits, and . _ - @ +, for example `anna.berger`."),
    )
    email = models.EmailField(blank=True)
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)
    teams = models.ManyToManyField(Team, related_name="members", blank=True)
    is_active = models.BooleanField(default=True)
    timezone = models.CharField(max_length=64, default="UTC", validators=[validate_timezone])
    theme = models.CharField(max_length=8, choices=Theme.choices, default=Theme.SYSTEM)
    mail_alerts = models.BooleanField(default=False)  # receives mails about alerts
    # Two-factor secret, stored when displayed; used only after confirmation.
    totp_secret = EncryptedTextField(blank=True, default="")
    totp_confirmed_at = models.DateTimeField(null=True, blank=True)
    totp_last_counter = models.BigIntegerField(default=0)  # each code is valid once
    recovery_codes = models.JSONField(default=list, blank=True)  # hashed, removed when used

    # The scopes of the request's token; None: a session. Never stored.
    scopes: frozenset[str] | None = None

    USERNAME_FIELD = "username"
    objects = UserManager()

    class Meta:
        ordering = ["username"]
        constraints = [models.UniqueConstraint(Lower("username"), name="accounts_user_username_ci")]

    def __str__(self) -> str:
        return self.username

    @property
    def is_admin(self) -> bool:
        return self.role == Role.ADMIN

    @property
    def has_second_factor(self) -> bool:
        return self.totp_confirmed_at is not None


class ApiToken(BaseModel):
    """API token of a user. Its text is shown once; the row stores only its SHA-256 digest."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80, validators=[validate_line])
    prefix = models.CharField(max_length=16, unique=True)  # shown in lists and logs
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list, validators=[validate_scopes])
    addresses = models.JSONField(
        null=True, blank=True, default=None, validators=[validate_addresses]
    )  # null: any; an empty list: none
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    last_used_address = models.GenericIPAddressField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"

    @property
    def is_usable(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())


class SavedView(BaseModel):
    """A user's named filter of a list; `query` is the query string of the list's URL."""

    class Page(models.TextChoices):
        """Pages with a list whose filter can be saved as a view; each value is the name of the page's URL."""

        SITES = "websites:list", _("Sites")
        HOSTS = "hosts:list", _("Hosts")
        DEPLOYMENTS = "deployments:list", _("Deployments")
        BENCHMARKS = "benchmarks:list", _("Benchmarks")
        AUDIT = "audit:list", _("Audit log")

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="views")
    page = models.CharField(max_length=40, choices=Page.choices)
    name = models.CharField(max_length=40, validators=[validate_line])
    query = models.CharField(max_length=1000)

    class Meta:
        ordering = ["page", Lower("name")]
        constraints = [models.UniqueConstraint("user", "page", Lower("name"), name="accounts_savedview_once")]

    def __str__(self) -> str:
        return f"{self.get_page_display()}: {self.name}"


class GuessBudget(models.Model):
    """Number of wrong guesses under one key: an account, a network, or a device (panel.accounts.guessing)."""

    key = models.CharField(max_length=120, unique=True)
    failures = models.FloatField(default=0.0)  # at the time `counted_at`; they expire gradually
    counted_at = models.DateTimeField()
    forgotten_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.key


class SetupSecret(models.Model):
    """One-time right to create the first account.
    The row stores only the SHA-256 of the secret; the plain text is in a file with mode 0600.
    """

    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"setup secret of {self.created_at:%Y-%m-%d %H:%M}"


class AccountLink(models.Model):
    """One-time right to set the password of an account. The row stores only the SHA-256 of the link's secret."""

    class Kind(models.TextChoices):
        INVITE = "invite", _("Invitation")
        RESET = "reset", _("Link for a new password")

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="links")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    # null: the user requested the link
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)  # when it was used, or when it was ended unused

    def __str__(self) -> str:
        return f"{self.get_kind_display()} for {self.user}"
