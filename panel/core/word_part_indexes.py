"""Indexes for parts of words on PostgreSQL with its extension pg_trgm (part of every usual installation), for
migrations. Without the extension a search works too, and reads every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import ProgrammingError, migrations, transaction


def word_part_indexes(columns: Mapping[str, tuple[str, str]]) -> migrations.RunPython:
    """Operation of a migration that creates indexes. `columns`: table and column by the name of the index."""

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
    """Return whether the extension is there. The database's owner may create it, another role may lack the right."""
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except ProgrammingError:
        return False
    return True
