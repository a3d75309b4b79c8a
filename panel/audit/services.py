"""Services that write the audit log. Call `audit_record` inside the transaction that makes the change."""

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

SECRET = "(secret)"  # noqa: S105 - replaces the value of a secret
_HIDDEN = {"password", "totp_secret", "recovery_codes", "digest", "basic_auth_users"}


@dataclass(frozen=True)
class Caller:
    """Origin of the current request: the client's address and, for API calls, the prefix of the token."""

    address: str | None = None
    token_prefix: str = ""


caller: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039 - frozen


def snapshot(instance: Model) -> dict[str, object]:
    """Return an object's fields as {name: JSON value}. A secret becomes "(secret)", or "" if it is empty."""
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


# An object with its `snapshot` before and after; None if it did not exist before, or does not exist after.
Change = tuple[Model, Mapping[str, object] | None, Mapping[str, object] | None]


def audit_record(
    *,
    actor: User | None,
    action: str,
    target: Model,
    before: Mapping[str, object] | None = None,
    after: Mapping[str, object] | None = None,
) -> AuditEntry:
    """Write one audit entry and return it.
    `action` is a kind of object and a verb, such as site.update. `before` and `after` come from `snapshot`. `before` is
    None for a created object, `after` for a deleted one.
    """
    (team,) = teams_of([target])
    return AuditEntry.objects.create(**_columns(actor, action, target, before, after), team_id=team)


def audit_record_all(*, actor: User | None, action: str, targets: Iterable[Change]) -> None:
    """Write one audit entry for each of `targets` (object, values before, values after), all with the same action, with
    one INSERT.
    """
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
    """Return the column values of an audit entry, without its time and team."""
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
