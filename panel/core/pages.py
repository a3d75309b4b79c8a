"""Pages of long lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.db.models.functions import Coalesce
from django.utils.functional import cached_property

# Rows that the pages of a history show. The API and the exports of the lists have no such limit.
MOST = 5_000
# So few rows of a history are found first and sorted then.
FEW = 1_000


def unindexed(field: str) -> Coalesce:
    """The field as an expression to sort by that no index has.

    For the first few of rows that may be rare: the database expects to meet them early in the index of the order, and
    reads the index to its end, with a look-up for each row, where there are few or none.
    """
    return Coalesce(field, field)


class LongListPaginator(Paginator):  # type: ignore[type-arg] # not subscriptable when it runs
    """Pages of a query's rows, of the first `most` if that is given.

    Counting stops there, and each page first finds the keys of its rows, so that a page of a million rows costs the
    database little more than one of a thousand. Of a history, FEW rows are found without their order: a database that
    expects more of them walks along the index of the order, past all other rows. `keys`: the rows of a search that is
    done, in order.
    """

    def __init__(
        self, rows: QuerySet[Any], per_page: int, most: int | None = None, keys: Sequence[int] | None = None
    ) -> None:
        super().__init__(rows, per_page)
        self._rows, self._most, self._keys = rows, most, keys

    def _found(self) -> QuerySet[Any, Any]:
        """Keys of the rows in no order, with one more than the pages show."""
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
        """True if there are more rows than the pages show."""
        return self._counted > self.count

    def page(self, number: int | str) -> Page[Any]:
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        if self._keys is None and self._most is not None and self._counted <= FEW:
            few = self._rows.filter(pk__in=list(self._found()) if self._counted else [])
            return Page(few[first : first + self.per_page], number, self)
        known: Any = self._rows.values_list("pk", flat=True) if self._keys is None else self._keys
        keys = list(known[first : min(first + self.per_page, self.count)])
        return Page(self._rows.filter(pk__in=keys), number, self)


def page_of(
    rows: QuerySet[Any],
    per_page: int,
    number: str | None,
    *,
    most: int | None = None,
    keys: Sequence[int] | None = None,
) -> Page[Any]:
    """The page with this number of a query's rows; the first or the last if there is no such page."""
    return LongListPaginator(rows, per_page, most, keys).get_page(number)
