"""Which SQL the tests send: what a test says to SQLite that others say too need not be said to PostgreSQL twice.

Only tests marked `any_database` that start servers are left out so. They are about those (what load tools measure, what
servers do with a file); one that sends a statement of its own runs all the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROWS = re.compile(r"\((?:%s(?:, )?)+\)(?:, \((?:%s(?:, )?)+\))*")  # of IN and VALUES, however many
NUMBERS = re.compile(r"\b(LIMIT|OFFSET) \d+")
ROWS_ARE_TOUCHED = ("SELECT", "INSERT", "UPDATE", "DELETE")


def shape(sql: str) -> str:
    """The same for statements that differ in how many values they were given."""
    return NUMBERS.sub(r"\1", ROWS.sub("(%s)", sql))


class Recorder:
    """Takes down what one process of a parallel run sends, by test where the test is marked."""

    def __init__(self) -> None:
        self._by_test: dict[str, set[str]] = {}
        self._now: set[str] | None = None

    def begin(self, test: str, *, is_marked: bool) -> None:
        self._now = self._by_test.setdefault(test if is_marked else "", set())

    def end(self) -> None:
        """What comes until the next test is nobody's."""
        self._now = None

    @contextmanager
    def deaf(self) -> Iterator[None]:
        before, self._now = self._now, None
        yield
        self._now = before

    def listen(self, connection: Any, **_: object) -> None:
        """Of a connection that was just opened, in whatever thread."""
        if self._take not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._take)

    def _take(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if self._now is not None and sql.startswith(ROWS_ARE_TOUCHED):
            self._now.add(sql)
        return execute(sql, params, many, context)

    def write(self, path: Path) -> None:
        found = {test: sorted({_sum(sql) for sql in said}) for test, said in self._by_test.items()}
        path.write_text(json.dumps(found))


def _sum(sql: str) -> str:
    return hashlib.blake2b(shape(sql).encode(), digest_size=8).hexdigest()


def said_by_others(tests: Iterable[str], folder: Path) -> set[str]:
    """Those of the marked `tests` whose every statement an unmarked one sends too, or a marked one before it that is
    not among them; by what a whole run wrote into `folder`. One that did not run there is none of them."""
    known: dict[str, set[str]] = {}
    for path in sorted(folder.iterdir()):
        for test, sums in json.loads(path.read_text()).items():
            known.setdefault(test, set()).update(sums)
    said = known.get("", set())
    found = set()
    for test in tests:
        if test in known and known[test] <= said:
            found.add(test)
        else:
            said |= known.get(test, set())
    return found
