"""Writing the audit trail. Call `audit_record` inside the transaction that makes the change."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.forms.models import model_to_dict

from panel.accounts.models import User
from panel.audit.models import AuditEntry
from panel.core.fields import EncryptedTextField
from panel.core.middleware import current_request_id

SECRET = "(secret)"  # noqa: S105 - what stands in place of one
_HIDDEN = {"password", "totp_secret", "recovery_codes", "digest", "basic_auth_users"}


@dataclass(frozen=True)
class Caller:
    """Where a change came from, beyond its actor; set once per request by whoever authenticated it."""

    address: str | None = None
    token_prefix: str = ""


caller: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039 - frozen


def snapshot(instance: Model) -> dict[str, Any]:
    """An object's fields as JSON values, secrets replaced by a mark that still shows whether one is set."""
    values: dict[str, Any] = {}
    for name, value in model_to_dict(instance).items():
        field = instance._meta.get_field(name)
        if isinstance(field, EncryptedTextField) or name in _HIDDEN:
            values[name] = SECRET if value else ""
        elif isinstance(value, list):
            values[name] = [item.pk if isinstance(item, Model) else item for item in value]
        else:
            values[name] = value if isinstance(value, str | int | float | bool | dict | None) else str(value)
    return values


# An object, and what it was and is: from `snapshot`, None when it did or does not exist.
Change = tuple[Model, dict[str, Any] | None, dict[str, Any] | None]


def audit_record(
    *,
    actor: User | None,
    action: str,
    target: Model,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """One row: `action` is noun.verb; `before` and `after` come from `snapshot` (None: did or does not exist)."""
    (entry,) = audit_record_all(actor=actor, action=action, targets=[(target, before, after)])
    return entry


def audit_record_all(*, actor: User | None, action: str, targets: Iterable[Change]) -> list[AuditEntry]:
    """The same for many objects with one statement."""
    origin = caller.get()
    return AuditEntry.objects.bulk_create(
        AuditEntry(
            actor=actor,
            actor_label=actor.username if actor else "system",
            token_prefix=origin.token_prefix,
            action=action,
            object_type=target._meta.label_lower,
            object_id=str(target.pk),
            object_label=str(target)[:200],
            before=before,
            after=after,
            request_id=current_request_id() if current_request_id() != "-" else "",
            address=origin.address,
        )
        for target, before, after in targets
    )
