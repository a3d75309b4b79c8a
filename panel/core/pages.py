"""Pagination of long lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.db.models.functions import Coalesce
from django.utils.functional import cached_property

# Maximum number of rows that the pages of a history show. The API and exports have no such limit.
MOST = 5_000
# Up to this number, the rows of a history are found first, and sorted afterwards.
FEW = 1_000


def unindexed(field: str) -> Coalesce:
    """Return the field as a sort expression that no index matches, so that the database filters first and sorts then.

    Use this for the first few rows of a large table, if few rows match. With an index on the field, the database
    expects matches early in the order of the index. If few rows match, it reads the whole index and looks up each
    row.
    """
    return Coalesce(field, field)


class LongListPaginator(Paginator):  # type: ignore[type-arg] # not subscriptable when it runs
    """Paginator of a query's rows, or of the first `most` rows.

    Counting stops at `most`. Each page first finds the keys of its rows, so that a page of a million rows costs the
    database little more than a page of a thousand. With `most`, a list of at most FEW rows is selected first and sorted
    afterwards. Otherwise, the database might read a whole index in the sort order to find these few rows. `keys` are
    the keys of all rows in order, if a search has already found them. `shown` is a query of the same rows with
    everything that a page shows; rows are counted without it, so that counting joins no tables.
    """

    def __init__(
        self,
        rows: QuerySet[Any],
        per_page: int,
        most: int | None = None,
        keys: Sequence[int] | None = None,
        shown: QuerySet[Any] | None = None,
    ) -> None:
        super().__init__(rows, per_page)
        self._rows, self._most, self._keys = rows, most, keys
        self._shown = rows if shown is None else shown

    def _found(self) -> QuerySet[Any, Any]:
        """Select the keys of the rows, unordered. With `most`, select one key more than `most`, if there is one.

        The additional key shows that the list is cut.
        """
        keys = self._rows.order_by().values_list("pk", flat=True)
        return keys if self._most is None else keys[: self._most + 1]

    @cached_property
    def _counted(self) -> int:
        return self._found().count() if self._keys is None else len(self._keys)

    @cached_property
    def count(self) -> int:
        return self._counted if self._most is None else min(self._counted, self._most)

    @property
    def is_cut(self) -> bool:
        """Return whether the query has more rows than `most`, the number of rows that the pages show."""
        return self._counted > self.count

    def page(self, number: int | str) -> Page[Any]:
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        if self._keys is None and self._most is not None and self._counted <= FEW:
            few = self._rows.filter(pk__in=list(self._found()) if self._counted else [])
            return Page(few[first : first + self.per_page], number, self)
        last = min(first + self.per_page, self.count)
        keys = self._between(first, last) if self._keys is None else self._keys[first:last]
        ordered = self._shown.order_by(*self._rows.query.order_by) if self._rows.query.order_by else self._shown
        return Page(ordered.filter(pk__in=keys), number, self)

    def _between(self, first: int, last: int) -> list[int]:
        """Return the keys of the rows from position `first` up to, but not including, `last`.

        Rows in the second half of the list are selected in reverse order, so that the database sorts and skips at most
        half of the list.
        """
        keys = self._rows.values_list("pk", flat=True)
        if self._most is not None or first < self.count / 2:
            return list(keys[first:last])
        return list(keys.reverse()[self.count - last : self.count - first])


def page_of(
    rows: QuerySet[Any],
    per_page: int,
    number: str | None,
    *,
    most: int | None = None,
    keys: Sequence[int] | None = None,
    shown: QuerySet[Any] | None = None,
) -> Page[Any]:
    """Return the page `number` of the list `rows`: the first page if `number` is not a number, the last page if there
    is no page `number`.

    The other arguments are those of LongListPaginator.
    """
    return LongListPaginator(rows, per_page, most, keys, shown).get_page(number)
