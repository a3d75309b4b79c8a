"""Services of access lists. A change of a list is a change of every site whose access rules name it."""

from __future__ import annotations

from django.db import transaction

from panel.accounts.models import Team, User
from panel.core.errors import Conflict
from panel.websites.models import AccessList
from panel.websites.selectors import sites_of_access_list
from panel.websites.services.base import remove, store
from panel.websites.versions import versions_count


def access_list_create(*, actor: User, team: Team, name: str, sources: list[str]) -> AccessList:
    """Add a list of addresses and networks. Raises PermissionDenied, ValidationError."""
    row = AccessList(team=team)
    values = {"name": name, "sources": sources}
    store(actor=actor, team=team, instance=row, action="access_list.create", values=values)
    return row


@transaction.atomic
def access_list_update(
    *, actor: User, access_list: AccessList, sources: list[str], expected_version: int | None = None
) -> AccessList:
    """Replace the sources. Sites that use the list have changes to deploy. Its name stays, because rules name it."""
    store(
        actor=actor,
        team=access_list.team,
        instance=access_list,
        action="access_list.update",
        values={"sources": sources},
        expected_version=expected_version,
    )
    versions_count([site.pk for site in sites_of_access_list(access_list)])
    return access_list


@transaction.atomic
def access_list_delete(*, actor: User, access_list: AccessList, expected_version: int | None = None) -> None:
    """Delete a list that no site uses. Raises Conflict with the names of the sites otherwise."""
    if sites := sites_of_access_list(access_list):
        names = ", ".join(site.name for site in sites)
        raise Conflict(f"The access list {access_list} is used by {names}. Remove it from their access rules first.")
    remove(
        actor=actor,
        team=access_list.team,
        instance=access_list,
        action="access_list.delete",
        expected_version=expected_version,
    )
