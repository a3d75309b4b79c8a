"""An index for the sites that changed last, and indexes for parts of words in names and folders. The latter are on
PostgreSQL with its extension pg_trgm (part of every usual installation).
"""

from django.db import ProgrammingError, migrations, models, transaction

_COLUMNS = (
    ("websites_site", "name"),
    ("websites_servername", "name"),
    ("websites_serverblock", "root"),
    ("websites_upstreamserver", "address"),
)


def create_indexes(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_trgm'")
        if cursor.fetchone() is None or not _created(schema_editor, cursor):
            return  # the search works without, and reads every row
        for table, column in _COLUMNS:
            # The expression that Django compares for `icontains`.
            cursor.execute(
                f"CREATE INDEX {table}_search_{column} ON {table} USING gin (UPPER({column}::text) gin_trgm_ops)"
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
            for table, column in _COLUMNS:
                cursor.execute(f"DROP INDEX IF EXISTS {table}_search_{column}")


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_account_link"),
        ("hosts", "0008_fpm_pools"),
        ("websites", "0021_labels_of_fields"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="site",
            index=models.Index(fields=["-updated_at", "-id"], name="websites_newest"),
        ),
        migrations.RunPython(create_indexes, drop_indexes),
    ]
