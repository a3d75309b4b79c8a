"""Load the child rows of many parents with one query, without a query set per parent.

Equivalent to Django's prefetch_related for plain foreign keys. Django builds and filters a query set for every parent
without running it, which took a tenth of the panel's time in a deployment to fifty hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from django.db.models import ForeignKey, Model, QuerySet
from django.db.models.sql import Query

Row = TypeVar("Row", bound=Model)


class _Fetched(QuerySet[Row]):
    """Loaded rows of one parent. Methods that change the selection (`filter`, `order_by`) run a
    query for that parent.
    """

    _owned: Mapping[str, Any] = {}

    def _chain(self) -> QuerySet[Row]:
        rows: QuerySet[Row] = QuerySet(self.model, using=self.db)
        return rows.filter(**self._owned)


def fetch_parts(parents: Sequence[Model], name: str, rows: QuerySet[Row]) -> list[Row]:
    """Rows of all `parents`, in order. Each parent gets its own under `name`, the reverse of their foreign key, and
    each row gets its parent.
    """
    if not parents:
        return []
    key = parents[0]._meta.get_field(name).remote_field
    assert isinstance(key, ForeignKey)
    groups: dict[Any, list[Row]] = {parent.pk: [] for parent in parents}
    found = list(rows.filter(**{f"{key.name}__in": list(groups)}))
    for row in found:
        groups[getattr(row, key.attname)].append(row)
    unasked = Query(rows.model)  # shared by all, because none of them changes or runs it
    for parent in parents:
        own: _Fetched[Row] = _Fetched(rows.model, unasked, using=rows.db)
        own._owned = {key.name: parent}
        own._result_cache = groups[parent.pk]
        for row in groups[parent.pk]:
            key.set_cached_value(row, parent)
        parent.__dict__.setdefault("_prefetched_objects_cache", {})[name] = own
    return found
