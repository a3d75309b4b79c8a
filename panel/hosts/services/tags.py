"""Change the tags of many hosts at once; websites uses `rows_tag` for sites."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record_all
from panel.core.errors import ApplicationError
from panel.core.models import BaseModel
from panel.core.tags import tags_checked
from panel.hosts.models import Host

T = TypeVar("T", bound=BaseModel)


@transaction.atomic
def hosts_tag(*, actor: User, hosts: Iterable[Host], add: Iterable[str] = (), remove: Iterable[str] = ()) -> list[Host]:
    """Add and remove tags of hosts, all or none; return the hosts.

    Raises PermissionDenied; ApplicationError if no host or no tag is given; ValidationError at `add` or `remove` for
    invalid tags.
    """
    require(actor, Action.ADMINISTER)
    chosen = {host.pk: host for host in hosts}
    if not chosen:
        raise ApplicationError("No hosts selected. Choose at least one host.", field="hosts")
    rows_tag(actor, "host.tag", list(chosen.values()), add, remove)
    return list(chosen.values())


def rows_tag(actor: User, action: str, rows: list[T], add: Iterable[str], remove: Iterable[str]) -> None:
    """Add and remove tags of hosts, sites or other objects with tags. The caller has checked permission.

    Objects without a change are skipped and get no audit entry. Raises ValidationError for invalid tags;
    ApplicationError if no tag is given, or if one is in both lists.
    """
    given, taken = _checked("add", add), set(_checked("remove", remove))
    if not given and not taken:
        raise ApplicationError("Enter at least one tag to add or remove.", field="add")
    if taken & set(given):
        both = ", ".join(sorted(taken & set(given)))
        raise ApplicationError(
            f"You add and remove the same tags: {both}. Either add or remove each tag.", field="remove"
        )
    told: list[Any] = []
    for row in rows:
        before: list[str] = row.tags  # type: ignore[attr-defined]
        after = _checked("add", [tag for tag in (*before, *given) if tag not in taken])
        if after == before:
            continue
        stored = type(row)._base_manager.filter(pk=row.pk)
        stored.update(tags=after, row_version=F("row_version") + 1, updated_at=timezone.now())
        row.refresh_from_db(fields=["tags", "row_version", "updated_at"])
        told.append((row, {"tags": before}, {"tags": after}))
    audit_record_all(actor=actor, action=action, targets=told)


def _checked(member: str, tags: Iterable[str]) -> list[str]:
    try:
        return tags_checked(list(tags))
    except ValidationError as error:
        raise ValidationError({member: error.messages}) from error
