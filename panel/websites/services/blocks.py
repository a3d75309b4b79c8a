"""Services for server blocks, with their listens and names, and for locations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Max

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError
from panel.websites import checks, validators
from panel.websites.models import Listen, Location, ServerBlock, ServerName, Site
from panel.websites.services.base import assign, at, refuse_certificate_of_others, remove, row_values, store
from panel.websites.versions import version_count

ListenValues = Mapping[str, Any]


def _next_position(rows: Any) -> int:
    last = rows.aggregate(last=Max("position"))["last"]
    return 0 if last is None else last + 1


def listens_set(block: ServerBlock, listens: Iterable[ListenValues]) -> None:
    """Replace the listens of a server block. The calling services check the permission and write the audit row."""
    block.listens.all().delete()
    faults: dict[str, list[str]] = {}
    for position, values in enumerate(listens):
        listen = Listen(block=block)
        try:
            with at(f"listens/{position}"):
                assign(listen, row_values(values))
                listen.full_clean()
        except ValidationError as error:
            faults |= error.message_dict
        else:
            listen.save()
    if faults:
        raise ValidationError(faults)


def names_set(block: ServerBlock, names: Iterable[str]) -> None:
    """Replace the server names of a server block, keeping the given order, and normalize them. One ValidationError
    reports all invalid names.
    """
    block.names.all().delete()
    faults: dict[str, list[str]] = {}
    for position, name in enumerate(names):
        row = ServerName(block=block, position=position)
        try:
            assign(row, {"name": name})
            row.name = row.name.strip()
            row.full_clean()
        except ValidationError as error:
            faults[f"names/{position}"] = validators.named_faults(name if isinstance(name, str) else "", error)
        else:
            row.save()
    if faults:
        raise ValidationError(faults)


def _children(
    actor: User,
    block: ServerBlock,
    listens: Iterable[ListenValues] | None,
    names: Iterable[str] | None,
    kept: checks.Kept,
) -> None:
    if listens is not None:
        listens_set(block, listens)
    if names is not None:
        names_set(block, names)
    version_count(block.site)
    checks.refuse_foreign(actor, block.site, kept=kept)
    checks.refuse_clashes(actor, block.site)


def _kept(site: Site) -> checks.Kept:
    """Return the names, addresses, services and paths that the site already uses; the checks of a change allow them."""
    return checks.kept_of(site, site.team, site.web_server)


def _location_children(actor: User, site: Site, kept: checks.Kept) -> None:
    version_count(site)
    checks.refuse_foreign_paths(actor, site, kept=kept.paths)


def block_create(
    *, actor: User, site: Site, listens: Iterable[ListenValues] = (), names: Iterable[str] = (), **values: Any
) -> ServerBlock:
    """Create a server block. `listens`: [{"port": 80, "address": "", "tls": false, ...}]; `names`: ["a.example",
    "*.a.example"].
    """
    refuse_certificate_of_others(site, values)
    block = ServerBlock(site=site, position=_next_position(site.blocks))
    kept = _kept(site)
    store(
        actor=actor,
        team=site.team,
        instance=block,
        action="block.create",
        values=values,
        children=lambda: _children(actor, block, listens, names, kept),
    )
    return block


def block_update(
    *,
    actor: User,
    block: ServerBlock,
    expected_version: int | None = None,
    listens: Iterable[ListenValues] | None = None,
    names: Iterable[str] | None = None,
    **values: Any,
) -> ServerBlock:
    """Change fields of a server block. `listens` and `names` replace the stored lists; None keeps them."""
    refuse_certificate_of_others(block.site, values)
    kept = _kept(block.site)
    store(
        actor=actor,
        team=block.site.team,
        instance=block,
        action="block.update",
        values=values,
        expected_version=expected_version,
        children=lambda: _children(actor, block, listens, names, kept),
    )
    return block


@transaction.atomic
def block_delete(*, actor: User, block: ServerBlock, expected_version: int | None = None) -> None:
    site = block.site
    remove(actor=actor, team=site.team, instance=block, action="block.delete", expected_version=expected_version)
    version_count(site)


# --- locations ---


def location_create(*, actor: User, block: ServerBlock, **values: Any) -> Location:
    """Create a location at the end of the server block's list; `values` are the model's fields."""
    location = Location(block=block, position=_next_position(block.locations))
    kept = _kept(block.site)
    store(
        actor=actor,
        team=block.site.team,
        instance=location,
        action="location.create",
        values=values,
        children=lambda: _location_children(actor, block.site, kept),
    )
    return location


def location_update(*, actor: User, location: Location, expected_version: int | None = None, **values: Any) -> Location:
    site = location.block.site
    kept = _kept(site)
    store(
        actor=actor,
        team=site.team,
        instance=location,
        action="location.update",
        values=values,
        expected_version=expected_version,
        children=lambda: _location_children(actor, site, kept),
    )
    return location


@transaction.atomic
def location_delete(*, actor: User, location: Location, expected_version: int | None = None) -> None:
    site = location.block.site
    remove(actor=actor, team=site.team, instance=location, action="location.delete", expected_version=expected_version)
    version_count(site)


@transaction.atomic
def locations_reorder(*, actor: User, block: ServerBlock, order: list[int]) -> None:
    """Reorder the locations of a server block. `order` must contain the primary key of each location exactly once."""
    require(actor, Action.CHANGE, block.site.team)
    rows = {row.pk: row for row in block.locations.all()}
    if sorted(order) != sorted(rows):
        raise ApplicationError(
            "The order must list each location of this server block once. Another user may have added "
            "or deleted a location; reload the page.",
            field="order",
        )
    before = [str(row) for row in rows.values()]
    for position, key in enumerate(order):
        rows[key].position = position
    Location.objects.bulk_update(rows.values(), ["position"])
    version_count(block.site)
    audit_record(
        actor=actor,
        action="location.reorder",
        target=block,
        before={"locations": before},
        after={"locations": [str(rows[key]) for key in order]},
    )
