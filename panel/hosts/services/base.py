"""Shared function of the services in hosts: set fields, validate, increment the version, save, audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core.errors import ApplicationError
from panel.core.models import BaseModel, version_bump


@transaction.atomic
def store(
    *,
    actor: User | None,
    instance: BaseModel,
    action: str,
    values: Mapping[str, Any],
    allowed: frozenset[str],
    expected_version: int | None = None,
) -> None:
    """Set fields of one object, validate the object, and save it in the database, as one transaction with an audit
    entry.

    `actor` None is the panel itself; only `allowed` fields may be set. Raises PermissionDenied, ValidationError,
    ApplicationError (unknown field) or Conflict.
    """
    if actor is not None:
        require(actor, Action.ADMINISTER)
    unknown = set(values) - allowed
    if unknown:
        name = sorted(unknown)[0]
        kind = instance._meta.verbose_name
        raise ApplicationError(
            f"Unknown field “{name}” of a {kind}. Known fields: {', '.join(sorted(allowed))}.",
            field=name,
            code="unknown",
        )
    created = instance.pk is None
    before = None if created else snapshot(type(instance)._base_manager.get(pk=instance.pk))
    for name, value in values.items():
        setattr(instance, name, value)
    instance.full_clean()
    if created:
        instance.save()
    else:
        version_bump(instance, expected_version)
        instance.save(update_fields=[*values, "updated_at"])
    audit_record(actor=actor, action=action, target=instance, before=before, after=snapshot(instance))
