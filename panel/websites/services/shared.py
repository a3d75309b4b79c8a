"""Services for shared settings: access lists, header sets and directive sets.
A change of a setting counts as a change of every site that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action
from panel.core.errors import Conflict
from panel.websites.models import DirectiveSet, SharedSetting
from panel.websites.selectors import sites_of_shared_setting, snippets_of_directive_set
from panel.websites.services.base import remove, store
from panel.websites.versions import versions_count

S = TypeVar("S", bound=SharedSetting)


def needs_of(model: type[SharedSetting]) -> Action:
    """Return the permission for changes of a kind of shared setting: ADMINISTER for directive sets, else CHANGE."""
    return Action.ADMINISTER if model is DirectiveSet else Action.CHANGE


def _action(model: type[SharedSetting], verb: str) -> str:
    return f"{model.slug.replace('-', '_')}.{verb}"


def shared_setting_create(*, actor: User, model: type[S], team: Team, values: Mapping[str, Any]) -> S:
    """Create a shared setting of a team; `values` includes its name.

    Raises PermissionDenied if `actor` lacks the permission of `needs_of`, ValidationError for invalid values.
    """
    row = model(team=team)
    action, needs = _action(model, "create"), needs_of(model)
    store(actor=actor, team=team, instance=row, action=action, values=values, needs=needs)
    return row


@transaction.atomic
def shared_setting_update(*, actor: User, row: S, values: Mapping[str, Any], expected_version: int | None = None) -> S:
    """Change the content of a shared setting. Sites that use the setting then have changes to deploy.

    Names cannot change, because sites refer to them. Raises PermissionDenied; Conflict if someone else changed the
    setting; ValidationError for invalid values, and for a directive set with which raw directives that use it would
    become invalid.
    """
    store(
        actor=actor,
        team=row.team,
        instance=row,
        action=_action(type(row), "update"),
        values=values,
        expected_version=expected_version,
        needs=needs_of(type(row)),
    )
    if isinstance(row, DirectiveSet):
        _expand_again(row)
    versions_count([site.pk for site in sites_of_shared_setting(row)])
    return row


def _expand_again(row: DirectiveSet) -> None:
    """Validate all raw directives that use the directive set, with its new text, and save their expanded text.

    Raises ValidationError at the field `text`, with the name of the site, for directives that would become invalid.
    """
    for snippet in snippets_of_directive_set(row):
        try:
            snippet.full_clean()
        except ValidationError as error:
            place = snippet.location or snippet.block
            raise ValidationError({"text": f"{snippet.site.name}, {place}: {'; '.join(error.messages)}"}) from error
        snippet.save(update_fields=["expanded"])


@transaction.atomic
def shared_setting_delete(*, actor: User, row: SharedSetting, expected_version: int | None = None) -> None:
    """Delete a shared setting that no site uses. Raises Conflict with the names of the sites that use it."""
    if sites := sites_of_shared_setting(row):
        names = ", ".join(site.name for site in sites)
        raise Conflict(f"The {row._meta.verbose_name} {row} is used by {names}. Remove it from these sites first.")
    remove(
        actor=actor,
        team=row.team,
        instance=row,
        action=_action(type(row), "delete"),
        expected_version=expected_version,
        needs=needs_of(type(row)),
    )
