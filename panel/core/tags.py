"""Tags: words that administrators assign to objects, to find and select them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Count, QuerySet
from django.db.models.lookups import Contains
from django.utils.translation import gettext as _

MAX_TAGS = 20
MAX_LENGTH = 32
_TAG = re.compile(r"[a-z0-9](?:[a-z0-9._:=-]*[a-z0-9])?\Z")
_BETWEEN = re.compile(r"[,\s]+")


def tags_from_text(text: str) -> list[str]:
    """Parse tags separated by commas or spaces: `prod, eu` -> ["prod", "eu"]."""
    return [tag for tag in _BETWEEN.split(text) if tag]


def tags_to_text(tags: Iterable[str]) -> str:
    return ", ".join(tags)


def tags_checked(value: Any) -> list[str]:
    """Return tags in lower case, sorted, without duplicates. Raises ValidationError for an invalid tag."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValidationError(_('Enter a list of tags, for example ["prod", "eu"].'), code="tags")
    found = sorted({item.strip().lower() for item in value})
    for tag in found:
        if len(tag) > MAX_LENGTH or not _TAG.match(tag):
            words = _(
                "“%(tag)s” is not a valid tag. Use up to %(limit)d letters a-z and digits, with . _ : = - between them."
            )
            raise ValidationError(words % {"tag": tag, "limit": MAX_LENGTH}, code="tags")
    if len(found) > MAX_TAGS:
        words = _("You entered %(count)d tags; the maximum is %(limit)d.")
        raise ValidationError(words % {"count": len(found), "limit": MAX_TAGS}, code="tags")
    return found


class TagsField(models.Field):  # type: ignore[type-arg] # not subscriptable when it runs
    """Model field for a sorted list of tags in one text column, as `,eu,prod,`.
    Rows are loaded and found by tag (`tags__has`) without a join, on every database.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs |= {"default": list, "blank": True}
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {key: item for key, item in kwargs.items() if key not in ("default", "blank")}

    def get_internal_type(self) -> str:
        return "TextField"

    def from_db_value(self, value: str | None, expression: object, connection: object) -> list[str]:
        return [tag for tag in (value or "").split(",") if tag]  # None: an outer join found no row

    def to_python(self, value: Any) -> list[str]:
        return tags_checked(tags_from_text(value) if isinstance(value, str) else value)

    def get_prep_value(self, value: Any) -> str:
        tags = self.to_python(value)
        return f",{','.join(tags)}," if tags else ""

    def value_to_string(self, obj: models.Model) -> str:
        return tags_to_text(self.value_from_object(obj))


@TagsField.register_lookup
class HasTag(Contains):
    """Lookup of rows that have a tag, not only a part of it: `tags__has="prod"` does not find `production`."""

    lookup_name = "has"
    param_pattern = "%%,%s,%%"

    def get_rhs_op(self, connection: Any, rhs: Any) -> Any:
        return connection.operators["contains"] % rhs


def tags_counted(rows: QuerySet[Any]) -> dict[str, int]:
    """Return {tag: number of rows with this tag} for all tags of `rows`, sorted by tag."""
    found: Counter[str] = Counter()
    # Thousands of rows have few combinations of tags; the database counts the rows of each.
    for tags, count in rows.exclude(tags=[]).order_by().values_list("tags").annotate(rows=Count("pk")):
        for tag in tags:
            found[tag] += count
    return dict(sorted(found.items()))


def tags_used(rows: QuerySet[Any]) -> set[str]:
    """Return the set of all tags of `rows`."""
    return {tag for tags in rows.order_by().values_list("tags", flat=True).distinct() for tag in tags}


def with_tags(rows: QuerySet[Any], tags: Iterable[str], field: str = "tags") -> QuerySet[Any]:
    """Return those of `rows` that have all of `tags`; `field` is the lookup path from a row to its tags."""
    for tag in tags:
        rows = rows.filter(**{f"{field}__has": tag})
    return rows
