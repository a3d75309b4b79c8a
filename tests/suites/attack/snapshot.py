"""What is in the database, so that any change is seen."""

from __future__ import annotations

import hashlib
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models import Model

# Rows that every request may write: who was seen when, and the trail of what was tried.
_SKIPPED_APPS = {"sessions", "contenttypes", "django_celery_beat"}
_SKIPPED = {"audit.AuditEntry", "accounts.GuessBudget"}  # wrong secrets are counted whoever sends them
_FIELDS = {"last_login", "last_used_at", "last_used_address", "updated_at", "row_version", "heartbeat_at"}

# What a savepoint wrote stays counted after it was undone.
_WRITTEN = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_xact_user_tables"

Rows = dict[str, dict[Any, str]]  # by model and primary key: a digest of the row


def _models() -> list[type[Model]]:
    return [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.app_label not in _SKIPPED_APPS and model._meta.label not in _SKIPPED and model._meta.managed
    ]


def rows() -> Rows:
    found: Rows = {}
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        for model in _models():
            names = [str(field.column) for field in model._meta.concrete_fields if field.attname not in _FIELDS]
            key = model._meta.pk.column
            columns = ", ".join(quote(name) for name in [key, *names])
            cursor.execute(f"SELECT {columns} FROM {quote(model._meta.db_table)}")
            found[model._meta.label] = {row[0]: hashlib.sha256(repr(row).encode()).hexdigest() for row in cursor}
    return found


def changes(before: Rows, after: Rows) -> list[tuple[str, Any]]:
    """(model, primary key) of each row that was added, changed or removed."""
    found: list[tuple[str, Any]] = []
    for label, old in before.items():
        new = after.get(label, {})
        found += [(label, key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)]
    return found


def writes() -> int:
    """How many rows this connection has written so far, on PostgreSQL those of the current transaction."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        return int(connection.connection.total_changes)
    with connection.cursor() as cursor:
        cursor.execute(_WRITTEN)
        return int(cursor.fetchone()[0])
