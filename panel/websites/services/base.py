"""What every service of this app does alike: permission, lock, check, save, count the version, audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import F
from django.utils import timezone

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core.errors import ApplicationError, Conflict
from panel.core.models import BaseModel
from panel.websites.models import Location, Site

# Apps that build on this one (deployments) put their objections to a removal or a move of a site here.
removal_guards: list[Callable[[Site, str], None]] = []
_OWNERS = {"site", "block", "install", "team"}


@lru_cache(maxsize=32)
def editable_fields(model: type[models.Model]) -> frozenset[str]:
    """The members that a caller may set: neither keys to the owner nor what is kept by the panel."""
    return frozenset(
        field.name
        for field in model._meta.concrete_fields
        if field.editable and not field.primary_key and field.name not in _OWNERS
    ) - {"created_at", "updated_at"}


def assign(instance: models.Model, values: Mapping[str, Any]) -> None:
    """Set members by name; an unknown one is refused, never ignored."""
    allowed = editable_fields(type(instance))
    for name, value in values.items():
        if name not in allowed:
            kind = instance._meta.verbose_name
            raise ApplicationError(
                f"A {kind} has no member “{name}”. It has: {', '.join(sorted(allowed))}.", field=name, code="unknown"
            )
        _check_kind(instance, name, value)
        setattr(instance, name, value)


def _check_kind(instance: models.Model, name: str, value: Any) -> None:
    """Django would turn any object into text, and words into truth; JSON has kinds of its own, so mixing them is a
    mistake of the caller."""
    field = instance._meta.get_field(name)
    if isinstance(field, models.CharField | models.TextField) and value is not None and not isinstance(value, str):
        raise ValidationError({name: "This is a text: write it in quotes."})
    if isinstance(field, models.BooleanField) and value is not None and not isinstance(value, bool):
        raise ValidationError({name: "This is true or false."})


def version_bump(instance: BaseModel, expected_version: int | None) -> None:
    """Count one change; with `expected_version`, only if nobody made another since."""
    rows = type(instance)._base_manager.filter(pk=instance.pk)
    if expected_version is not None:
        rows = rows.filter(row_version=expected_version)
    if not rows.update(row_version=F("row_version") + 1):
        raise Conflict(
            f"{instance} was changed or deleted by someone else since you opened it. Nothing was saved: load it "
            "again, look at what changed, and make your change once more."
        )
    instance.refresh_from_db(fields=["row_version"])


def described(instance: models.Model) -> dict[str, Any]:
    """An audit snapshot; a server block's with its listens and names, an upstream's with its servers."""
    values = snapshot(instance)
    for name in ("listens", "names", "servers"):
        related = getattr(instance, name, None)
        if isinstance(related, models.Manager):
            values[name] = [snapshot(row) for row in related.all()]
    return values


def fresh(instance: BaseModel) -> BaseModel:
    return type(instance)._base_manager.get(pk=instance.pk)


@transaction.atomic
def store(
    *,
    actor: User,
    team: Team,
    instance: BaseModel,
    action: str,
    values: Mapping[str, Any],
    expected_version: int | None = None,
    children: Callable[[], None] | None = None,
    needs: Action = Action.CHANGE,
) -> None:
    """Create or change one object: permission, members, `full_clean()`, version, rows below it, audit; or nothing.

    Raises PermissionDenied, ValidationError, ApplicationError (unknown member) or Conflict.
    """
    require(actor, needs, team)
    created = instance.pk is None
    before = None if created else described(fresh(instance))
    assign(instance, values)
    instance.full_clean()
    if created:
        instance.save()
    else:
        version_bump(instance, expected_version)
        instance.save(update_fields=[*values, "updated_at"])
    if children:
        children()
    audit_record(actor=actor, action=action, target=instance, before=before, after=described(instance))


@transaction.atomic
def remove(
    *,
    actor: User,
    team: Team,
    instance: BaseModel,
    action: str,
    expected_version: int | None = None,
    needs: Action = Action.CHANGE,
) -> None:
    """Delete one object and what belongs to it."""
    require(actor, needs, team)
    version_bump(instance, expected_version)
    audit_record(actor=actor, action=action, target=instance, before=described(instance))
    instance.delete()


def touch(site: Site) -> None:
    """A part of the site changed: its version (the ETag of the whole definition) counts on."""
    Site.objects.filter(pk=site.pk).update(row_version=F("row_version") + 1, updated_at=timezone.now())
    site.refresh_from_db(fields=["row_version", "updated_at"])


def site_of(part: models.Model) -> Site:
    """The site that a part belongs to."""
    if isinstance(part, Site):
        return part
    if isinstance(part, Location):
        return part.block.site
    owner: Any = part
    site: Site = owner.site
    return site
