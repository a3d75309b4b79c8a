"""Empties the database after a test with transactions of its own.

What Django does there truncates all of about sixty tables, which makes PostgreSQL create sixty new files and more for
their indexes, and writes content types and permissions anew, which no test changes.
"""

from __future__ import annotations

from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase

# Rows that belong to the schema.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}
# Everything goes, so no row can be left that refers to another: nobody has to look.
UNCHECKED = {"postgresql": "SET LOCAL session_replication_role = replica", "sqlite": "PRAGMA defer_foreign_keys = ON"}


def install() -> None:
    TransactionTestCase._fixture_teardown = _empty_all


def _empty_all(case: Any) -> None:
    for alias in case._databases_names(include_mirrors=False):
        empty(connections[alias])


def empty(connection: BaseDatabaseWrapper) -> None:
    """Removes all rows of models, as one transaction."""
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    statements = [UNCHECKED[connection.vendor], *(f"DELETE FROM {connection.ops.quote_name(name)}" for name in tables)]
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("; ".join(statements))
        else:
            for statement in statements:
                cursor.execute(statement)
