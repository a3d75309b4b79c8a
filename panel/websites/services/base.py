"""Steps that all services of this app share: check permission, lock, validate, save, increment the version, audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models, transaction

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core import words
from panel.core.errors import ApplicationError
from panel.core.models import BaseModel, version_bump
from panel.core.tags import TagsField
from panel.hosts.models import WebServer
from panel.websites.models import Certificate, Location, ServerBlock, Site, StreamServer, Upstream

# Hook for apps that depend on this one (deployments), to reject the deletion or move of a site.
removal_guards: list[Callable[[Site, str], None]] = []
# Hook for apps whose objects on a host belong to a site (fpm), to reject its deletion, whether it is live or not.
deletion_guards: list[Callable[[Iterable[Site]], None]] = []
# The same for their move to a web server, which may be on another host; None: the sites get no web server.
move_guards: list[Callable[[Iterable[Site], WebServer | None], None]] = []
# Values that are rows of their own instead of columns.
PARTS: dict[type[models.Model], frozenset[str]] = {
    Site: frozenset({"team", "web_server", "upstreams", "php_pools", "stream_servers", "blocks"}),
    ServerBlock: frozenset({"listens", "names", "certificate", "locations", "snippets"}),
    Location: frozenset({"upstream", "php_pool", "snippets"}),
    Upstream: frozenset({"servers"}),
    StreamServer: frozenset({"upstream", "certificate", "routes"}),
}
_OWNERS = {"site", "block", "web_server", "team"}


@lru_cache(maxsize=32)
def editable_fields(model: type[models.Model]) -> frozenset[str]:
    """Return the names of the fields that a caller may set: no primary keys, no owner keys, no fields that the panel
    maintains.
    """
    return frozenset(
        field.name
        for field in model._meta.concrete_fields
        if field.editable and not field.primary_key and field.name not in _OWNERS
    ) - {"created_at", "updated_at"}


def assign(instance: models.Model, values: Mapping[str, Any]) -> None:
    """Set fields of an instance by name.

    Raises ApplicationError for an unknown name, ValidationError for a value of the wrong type.
    """
    allowed = editable_fields(type(instance))
    for name, value in values.items():
        if name not in allowed:
            known = ", ".join(sorted(allowed | PARTS.get(type(instance), frozenset())))
            kind = instance._meta.verbose_name
            raise ApplicationError(
                f"Unknown field “{name}” of a {kind}. Known fields: {known}.", field=str(name), code="unknown"
            )
        _check_kind(instance, name, value)
        setattr(instance, name, value)


def _check_kind(instance: models.Model, name: str, value: Any) -> None:
    """Raise ValidationError if the JSON type of a value does not fit the field `name`.

    Django would convert any object to text, and text to a boolean.
    """
    field = instance._meta.get_field(name)
    if value is None and not field.null:
        raise ValidationError({name: "This field cannot be null. Send a value, or omit the field."})
    if isinstance(field, models.CharField | models.TextField) and value is not None and not isinstance(value, str):
        raise ValidationError({name: "Send a JSON string."})
    if isinstance(field, TagsField) and not isinstance(value, list):
        raise ValidationError({name: 'Enter a list of tags, for example ["prod", "eu"].'})
    if isinstance(field, models.BooleanField) and value is not None and not isinstance(value, bool):
        raise ValidationError({name: "Send true or false."})
    if isinstance(field, models.IntegerField) and value is not None and not _is_whole(value):
        raise ValidationError({name: words.limits(field)})


def _is_whole(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii())


@contextmanager
def at(place: str) -> Iterator[None]:
    """Context manager that adds `place/` in front of the field names of errors raised in its block."""
    try:
        yield
    except ApplicationError as error:
        raise ValidationError({f"{place}/{error.field}".rstrip("/"): error.message}) from error
    except ValidationError as error:
        if not hasattr(error, "error_dict"):
            raise ValidationError({place: error.messages}) from error
        joined = {
            place if field == "__all__" else f"{place}/{field}": messages
            for field, messages in error.message_dict.items()
        }
        raise ValidationError(joined) from error


def at_fields(messages: Mapping[str, list[str]], fields: Mapping[str, str]) -> ValidationError:
    """Return a ValidationError with `messages`, errors by place in a site's definition, assigned to fields of a simpler
    form.

    A place is, for example, blocks/0/listens/1/address. `fields` maps one or two parts of a place, such as "listens" or
    "listens/address", to a form field. Errors at other places are assigned to the last part of their place.
    """
    placed: dict[str, list[str]] = {}
    for place, texts in messages.items():
        parts = [part for part in place.split("/") if not part.isdecimal()]
        names = [*("/".join(pair) for pair in pairwise(parts)), *parts]
        field = next((fields[name] for name in names if name in fields), parts[-1])
        placed.setdefault(field, []).extend(texts)
    return ValidationError(placed)


def row_values(item: Any) -> Mapping[str, Any]:
    """Return `item`, a list item of a definition, if it maps names to values; otherwise raise ValidationError."""
    if not isinstance(item, Mapping):
        raise ValidationError("Send a JSON object with names and values.")
    return item


def refuse_certificate_of_others(site: Site, values: Mapping[str, Any]) -> None:
    """Raise ValidationError if `values` has a certificate that belongs to another team than the site."""
    certificate = values.get("certificate")
    if isinstance(certificate, Certificate) and certificate.team_id != site.team_id:
        raise ValidationError(
            {"certificate": "This certificate belongs to another team. Choose a certificate of the site's team."}
        )


def described(instance: models.Model) -> dict[str, object]:
    """Return an audit snapshot of an object; for a server block with its listens and names, for an upstream with its
    servers, for a stream server with its routes.
    """
    values = snapshot(instance)
    for name in ("listens", "names", "servers", "routes"):
        related = getattr(instance, name, None)
        if isinstance(related, models.Manager):
            values[name] = [snapshot(row) for row in related.all()]
    return values


def fresh(instance: BaseModel) -> BaseModel:
    return type(instance)._base_manager.get(pk=instance.pk)


@transaction.atomic
def store(
    *,
    actor: User,
    team: Team,
    instance: BaseModel,
    action: str,
    values: Mapping[str, Any],
    expected_version: int | None = None,
    children: Callable[[], None] | None = None,
    needs: Action = Action.CHANGE,
) -> None:
    """Create or change one object and its child rows in one transaction.

    Check the permission, validate by `full_clean()`, increment the version, save, and write an audit row. Raises
    PermissionDenied, ValidationError, ApplicationError (unknown field) or Conflict.
    """
    require(actor, needs, team)
    created = instance.pk is None
    before = None if created else described(fresh(instance))
    assign(instance, values)
    instance.full_clean()
    if created:
        instance.save()
    else:
        version_bump(instance, expected_version)
        instance.save(update_fields=[*values, "updated_at"])
    if children:
        children()
    audit_record(actor=actor, action=action, target=instance, before=before, after=described(instance))


@transaction.atomic
def remove(
    *,
    actor: User,
    team: Team,
    instance: BaseModel,
    action: str,
    expected_version: int | None = None,
    needs: Action = Action.CHANGE,
) -> None:
    """Delete one object with its parts, after checking permission and version; write an audit row."""
    require(actor, needs, team)
    version_bump(instance, expected_version)
    audit_record(actor=actor, action=action, target=instance, before=described(instance))
    instance.delete()


def site_of(part: models.Model) -> Site:
    """Return the site that a part (server block, location, upstream, ...) belongs to."""
    if isinstance(part, Site):
        return part
    if isinstance(part, Location):
        return part.block.site
    owner: Any = part
    site: Site = owner.site
    return site
