"""Services for saved views: a user's named filters of lists."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from django.db import transaction

from panel.accounts.models import SavedView, User
from panel.accounts.permissions import require_writing
from panel.audit.services import audit_record, snapshot
from panel.core.errors import ApplicationError

PER_PAGE = 30  # saved views per user and list
_NEVER_KEPT = {"page", "csrfmiddlewaretoken"}


def essence(query: str) -> str:
    """Return the filters and order in a list's query string, sorted, without the page number; "" if there are none."""
    pairs = [(name, value) for name, value in parse_qsl(query) if name not in _NEVER_KEPT]
    return urlencode(sorted(pairs))


@transaction.atomic
def view_save(*, actor: User, page: str, name: str, query: str) -> SavedView:
    """Save `query` under `name`, replacing the actor's view of that name.

    Raises ValidationError for invalid values, and ApplicationError at the field `name` for an empty query or too many
    views.
    """
    require_writing(actor)
    kept = essence(query)
    if not kept:
        raise ApplicationError(
            "The list shows everything. Set a filter or an order first, then save the view.", field="name"
        )
    own = SavedView.objects.filter(user=actor, page=page)
    view = own.filter(name__iexact=name.strip()).first() or SavedView(user=actor, page=page)
    if view.pk is None and own.count() >= PER_PAGE:
        raise ApplicationError(f"This list already has {PER_PAGE} views. Delete a view first.", field="name")
    before = snapshot(view) if view.pk else None
    view.name, view.query = name.strip(), kept
    view.full_clean()
    view.save()
    audit_record(actor=actor, action="view.save", target=view, before=before, after=snapshot(view))
    return view


@transaction.atomic
def view_delete(*, actor: User, view: SavedView) -> None:
    require_writing(actor)
    audit_record(actor=actor, action="view.delete", target=view, before=snapshot(view))
    view.delete()
