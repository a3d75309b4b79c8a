"""Create, change and delete change windows (administrators only), and refuse changes of hosts outside of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core.errors import Conflict
from panel.deployments.change_windows import ChangeWindow
from panel.deployments.windows.selectors import closed_hosts
from panel.hosts.models import Host
from panel.hosts.services.base import store

FIELDS = ("name", "kind", "tags", "weekdays", "opens_at", "closes_at", "zone", "begins_at", "ends_at")


def change_window_set(
    *, actor: User, window: ChangeWindow | None = None, expected_version: int | None = None, **values: Any
) -> ChangeWindow:
    """Create a change window, or change `window`. `values` are the columns to set, a subset of FIELDS.
    Raises PermissionDenied, ValidationError, Conflict.
    """
    row = window or ChangeWindow()
    store(
        actor=actor,
        instance=row,
        action="change_window.set",
        values=values,
        allowed=frozenset(FIELDS),
        expected_version=expected_version,
    )
    return row


@transaction.atomic
def change_window_delete(*, actor: User, window: ChangeWindow) -> None:
    """Delete a change window or a freeze, which then no longer limits changes."""
    require(actor, Action.ADMINISTER)
    audit_record(actor=actor, action="change_window.delete", target=window, before=snapshot(window))
    window.delete()


def refuse_closed(actor: User, hosts: Iterable[Host], *, despite_windows: bool) -> None:
    """Raise Conflict if change windows forbid changes of one of the hosts now. With `despite_windows`, windows are
    ignored, and PermissionDenied is raised unless the actor is an administrator.
    """
    if despite_windows:
        require(actor, Action.ADMINISTER)
        return
    closed = closed_hosts(hosts)
    if closed:
        advice = _("Deploy later, or ask an administrator to deploy outside of the change window.")
        raise Conflict(" ".join([*(item.words for item in closed[:5]), advice]))
