"""Writing the audit trail. Call `audit_record` inside the transaction that makes the change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

from django.db.models import Model
from django.forms.models import model_to_dict
from django.utils import timezone

from panel.accounts.models import User
from panel.audit.models import AuditEntry
from panel.audit.teams import teams_of
from panel.core.fields import EncryptedTextField
from panel.core.middleware import current_request_id

SECRET = "(secret)"  # noqa: S105 - what stands in place of one
_HIDDEN = {"password", "totp_secret", "recovery_codes", "digest", "basic_auth_users"}


@dataclass(frozen=True)
class Caller:
    """Origin of a change besides its actor; set once per request by the authentication."""

    address: str | None = None
    token_prefix: str = ""


caller: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039 - frozen


def snapshot(instance: Model) -> dict[str, object]:
    """An object's fields as JSON values, with secrets replaced by a mark that shows whether one is set."""
    values: dict[str, object] = {}
    for name, value in model_to_dict(instance).items():
        field = instance._meta.get_field(name)
        if isinstance(field, EncryptedTextField) or name in _HIDDEN:
            values[name] = SECRET if value else ""
        elif isinstance(value, list):
            values[name] = [item.pk if isinstance(item, Model) else item for item in value]
        else:
            values[name] = value if isinstance(value, str | int | float | bool | dict | None) else str(value)
    return values


# An object with its states before and after: from `snapshot`, None if it did not or does not exist.
Change = tuple[Model, Mapping[str, object] | None, Mapping[str, object] | None]


def audit_record(
    *,
    actor: User | None,
    action: str,
    target: Model,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> AuditEntry:
    """Write one row: `action` is noun.verb; `before` and `after` come from `snapshot` (None: did not or does not
    exist).
    """
    (team,) = teams_of([target])
    return AuditEntry.objects.create(**_columns(actor, action, target, before, after), team_id=team)


def audit_record_all(*, actor: User | None, action: str, targets: Iterable[Change]) -> None:
    """Write rows for many objects with one statement."""
    changes = list(targets)
    teams = teams_of(target for target, _before, _after in changes)
    AuditEntry.objects.bulk_create(
        AuditEntry(at=timezone.now(), **_columns(actor, action, *change), team_id=team)
        for change, team in zip(changes, teams, strict=True)
    )


def _columns(
    actor: User | None,
    action: str,
    target: Model,
    before: Mapping[str, object] | None,
    after: Mapping[str, object] | None,
) -> dict[str, object]:
    """Fields of an entry except its time."""
    origin, request_id = caller.get(), current_request_id()
    return {
        "actor_id": actor.pk if actor else None,
        "actor_label": actor.username if actor else "system",
        "token_prefix": origin.token_prefix,
        "action": action,
        "object_type": target._meta.label_lower,
        "object_id": str(target.pk),
        "object_label": str(target)[:200],
        "before": before,
        "after": after,
        "request_id": request_id if request_id != "-" else "",
        "address": origin.address,
    }
