"""Indexes for parts of words in names, on PostgreSQL with its extension pg_trgm (part of every usual installation)."""

from django.db import ProgrammingError, migrations, transaction

_COLUMNS = ("object_label", "actor_label")


def create_indexes(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
        if cursor.fetchone() is None or not _created(schema_editor, cursor):
            return  # the search works without, and reads every entry
        for column in _COLUMNS:
            # The expression that Django compares for `icontains`.
            cursor.execute(
                f"CREATE INDEX audit_search_{column} ON audit_auditentry USING gin (UPPER({column}::text) gin_trgm_ops)"
            )


def _created(schema_editor, cursor):
    """Return whether the extension is there. The database's owner may create it, another role may lack the right."""
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except ProgrammingError:
        return False
    return True


def drop_indexes(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        with schema_editor.connection.cursor() as cursor:
            for column in _COLUMNS:
                cursor.execute(f"DROP INDEX IF EXISTS audit_search_{column}")


class Migration(migrations.Migration):
    dependencies = [("audit", "0003_teams_of_entries")]

    operations = [migrations.RunPython(create_indexes, drop_indexes)]
