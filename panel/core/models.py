"""Base classes of all models, and the models of core."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from email.utils import parseaddr
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F
from django.utils.translation import gettext_lazy as _

from panel.core import words
from panel.core.errors import Conflict
from panel.core.fields import EncryptedTextField

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?")


def _faults(check: Callable[[], None], found: words.Found) -> words.Found:
    """Return the errors in `found` together with those that `check`, a validation without arguments, raises."""
    try:
        check()
    except ValidationError as error:
        return error.update_error_dict(found)
    return found


def _is_stored(row: models.Model | None) -> bool:
    return row is not None and row.pk is not None and not row._state.adding


def version_bump(instance: BaseModel, expected: int | None) -> None:
    """Increment the version of a row.
    Raises Conflict if the row was deleted, or if its version is not `expected` (None: any version).
    """
    rows = type(instance)._base_manager.filter(pk=instance.pk)
    if expected is not None:
        rows = rows.filter(row_version=expected)
    if not rows.update(row_version=F("row_version") + 1):
        raise Conflict(
            f"{instance} was changed or deleted by someone else since you opened it. Nothing was saved. "
            "Reload the page, review the changes, and make your change again."
        )
    instance.refresh_from_db(fields=["row_version"])


class CheckedModel(models.Model):
    """Base model with the panel's own error messages.
    `clean()` runs only after all fields are valid, so it gets values of the right type.
    """

    class Meta:
        abstract = True

    def clean_fields(self, exclude: Collection[str] | None = None) -> None:
        """Validate fields. Foreign keys that were assigned as saved objects are skipped, which saves a query
        for each.
        """
        given = {
            field.name
            for field in self._meta.concrete_fields
            if isinstance(field, models.ForeignKey) and _is_stored(field.get_cached_value(self, default=None))
        }
        try:
            super().clean_fields(exclude=given.union(exclude or ()))
        except ValidationError as error:
            raise ValidationError(words.of_fields(self, error.error_dict)) from error

    def unique_error_message(self, model_class: type[models.Model], unique_check: Collection[str]) -> ValidationError:
        message = words.not_unique(self, tuple(unique_check))
        code = "unique" if len(unique_check) == 1 else "unique_together"
        return ValidationError(message, code=code, params={"unique_check": tuple(unique_check)})

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        try:
            super().validate_constraints(exclude=exclude)
        except ValidationError as error:
            raise ValidationError(words.of_uniqueness(error.error_dict)) from error

    def full_clean(
        self,
        exclude: Iterable[str] | None = None,
        validate_unique: bool = True,
        validate_constraints: bool = True,
    ) -> None:
        """Validate like Django, but each field only once: a second time would cost a query per foreign key."""
        excluded = set(exclude or ())
        try:
            self.clean_fields(exclude=excluded)
        except ValidationError as error:
            raise self._with_the_rest(error.error_dict, excluded, validate_unique) from error
        found = _faults(self.clean, {})
        if validate_unique:
            found = _faults(lambda: self.validate_unique(exclude=excluded | set(found)), found)
        if validate_constraints:
            found = _faults(lambda: self.validate_constraints(exclude=excluded | set(found)), found)
        if found:
            raise ValidationError(found)

    def _with_the_rest(self, found: words.Found, exclude: set[str], unique: bool) -> ValidationError:
        """Return a ValidationError with the errors in `found` (of invalid fields) and, if `unique`, those of uniqueness
        checks of the valid fields.

        If only values are missing, `clean()` runs too: its messages for missing values are better.
        """
        others: words.Found = {}
        if words.is_only_empty(found):
            others = _faults(self.clean, others)  # clean() has better messages for missing values
        if unique:
            others = _faults(lambda: self.validate_unique(exclude=exclude | set(found)), others)
        return ValidationError({**found, **others})


class BaseModel(CheckedModel):
    """Base model with a version: `row_version` counts saved changes.
    It is the API's weak ETag and prevents lost updates.
    """

    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    row_version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        abstract = True

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        if self._state.adding:
            super().save(*args, update_fields=update_fields, **kwargs)
            return
        known = self.row_version
        # Incremented by the database, so that an outdated object cannot lower the version.
        self.row_version = F("row_version") + 1
        if update_fields is not None:
            update_fields = {*update_fields, "row_version", "updated_at"}
        try:
            super().save(*args, update_fields=update_fields, **kwargs)
        except BaseException:
            self.row_version = known
            raise
        self.refresh_from_db(fields=["row_version"])


class PeriodicDate(models.Model):
    """Next time of an entry of CELERY_BEAT_SCHEDULE.

    The process that sets the time to the following date sends the entry's task (core/scheduling.py).
    """

    name = models.CharField(max_length=100, unique=True)
    next_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.next_at:%Y-%m-%d %H:%M:%S}"


class MailServer(BaseModel):
    """Mail server that administrators set; at most one row.

    Without a row, the mail server of the environment variables is used (core/mail.py).
    """

    class Security(models.TextChoices):
        STARTTLS = "starttls", _("STARTTLS (usually port 587)")
        TLS = "tls", _("TLS (usually port 465)")
        NONE = "none", _("None: only for a server on this host")

    only = models.BooleanField(default=True, unique=True, editable=False)
    host = models.CharField(max_length=253)
    port = models.PositiveIntegerField(default=587, validators=[MinValueValidator(1), MaxValueValidator(65535)])
    security = models.CharField(max_length=8, choices=Security.choices, default=Security.STARTTLS)
    username = models.CharField(max_length=200, blank=True)
    password = EncryptedTextField(blank=True, default="")
    sender = models.CharField(max_length=200)  # the From header: Paddock <paddock@example.com>

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def clean(self) -> None:
        faults = {}
        if not _HOST.fullmatch(self.host):
            faults["host"] = _("Enter a host name or an IP address.")
        if "@" not in parseaddr(self.sender)[1] or not self.sender.isprintable():
            faults["sender"] = _("Enter a mail address, for example Paddock <paddock@example.com>.")
        if self.password and self.security == self.Security.NONE:
            faults["security"] = _("Paddock sends passwords only over TLS. Choose STARTTLS or TLS.")
        if faults:
            raise ValidationError(faults)
