"""Migration operation for indexes that speed up searches for parts of words, on PostgreSQL with pg_trgm.
Without the extension, which usual installations include, searches read every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import ProgrammingError, migrations, transaction


def word_part_indexes(columns: Mapping[str, tuple[str, str]]) -> migrations.RunPython:
    """Return the migration operation that creates indexes for searches for parts of words.

    `columns` maps the name of each index to (table, column).
    """

    def create(_apps: Any, schema_editor: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
            if cursor.fetchone() is None or not _created(schema_editor, cursor):
                return
            for name, (table, column) in columns.items():
                # The expression that Django compares for `icontains`.
                cursor.execute(f"CREATE INDEX {name} ON {table} USING gin (UPPER({column}::text) gin_trgm_ops)")

    def drop(_apps: Any, schema_editor: Any) -> None:
        if schema_editor.connection.vendor == "postgresql":
            with schema_editor.connection.cursor() as cursor:
                for name in columns:
                    cursor.execute(f"DROP INDEX IF EXISTS {name}")

    return migrations.RunPython(create, drop)


def _created(schema_editor: Any, cursor: Any) -> bool:
    """Create the extension pg_trgm; return whether it exists. The database role can lack the permission for it."""
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except ProgrammingError:
        return False
    return True
