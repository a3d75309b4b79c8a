"""Insert many rows from plain values.

`bulk_create` creates an object per row, reads every field, and builds one statement as long as all rows, which took a
tenth of the panel's time in fifty deployments. Use `bulk_create` for rows that are needed as objects afterwards, or
whose keys are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from django.db import connections, models, router, transaction
from django.db.models.constants import OnConflict

# For these fields the database accepts text, numbers and None.
_PLAIN = {
    models.CharField,
    models.TextField,
    models.PositiveIntegerField,
    models.IntegerField,
    models.ForeignKey,
    models.OneToOneField,
}
_AT_ONCE = 500  # rows per statement


def rows_insert(
    model: type[models.Model],
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    unique: Sequence[str] = (),
    update: Sequence[str] = (),
) -> None:
    """Insert one row of `model` for each of `rows`, with values of the fields `names`: ids of related objects, and
    every field without a database default.

    If a row with the same `unique` fields exists, its `update` fields are replaced. No signals are sent and nothing is
    returned.
    """
    fields = [model._meta.get_field(name) for name in names]
    connection = connections[router.db_for_write(model)]
    prepare: list[Callable[[Any], Any] | None] = [
        None if type(field) in _PLAIN else partial(field.get_db_prep_save, connection=connection)  # type: ignore[union-attr]
        for field in fields
    ]
    values = [
        [value if ready is None else ready(value) for ready, value in zip(prepare, row, strict=True)] for row in rows
    ]
    if not values:
        return
    quote = connection.ops.quote_name
    columns = [str(field.column) for field in fields]  # type: ignore[union-attr]
    # Only names of the model; the values are parameters.
    head = f"INSERT INTO {quote(model._meta.db_table)} ({', '.join(map(quote, columns))}) VALUES "  # noqa: S608
    one = f"({', '.join(['%s'] * len(columns))})"
    tail = ""
    if update:
        named = ([str(model._meta.get_field(name).column) for name in part] for part in (update, unique))  # type: ignore[union-attr]
        tail = " " + connection.ops.on_conflict_suffix_sql(fields, OnConflict.UPDATE, *named)
    with transaction.atomic(using=connection.alias, savepoint=False), connection.cursor() as cursor:
        if connection.vendor == "sqlite":  # no parameter arrays in SQLite
            cursor.executemany(f"{head}{one}{tail}", values)
            return
        for part in _parts(values):
            cursor.execute(f"{head}{', '.join([one] * len(part))}{tail}", [value for row in part for value in row])


def _parts(rows: Sequence[list[Any]]) -> Iterator[Sequence[list[Any]]]:
    for start in range(0, len(rows), _AT_ONCE):
        yield rows[start : start + _AT_ONCE]
