"""Queries of all threads: Django's own helper records only those of one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.db.backends.signals import connection_created


@contextmanager
def queries_of_all_threads() -> Iterator[list[str]]:
    """The statements that this thread makes, and those of threads that connect to the database meanwhile."""
    found: list[str] = []

    def record(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        found.append(sql)
        return execute(sql, params, many, context)

    def connected(connection: Any, **_: Any) -> None:
        if record not in connection.execute_wrappers:  # connected again after it was closed
            connection.execute_wrappers.append(record)

    connection_created.connect(connected)
    try:
        with connection.execute_wrapper(record):
            yield found
    finally:
        connection_created.disconnect(connected)
