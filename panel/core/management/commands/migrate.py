"""`manage.py migrate`: Django's command, extended for databases of every earlier version.

The migrations of each app were squashed into one. In a database from before the squash, the migrations in
migrations/unsquashed run first, up to the state that the squashed migrations describe. On PostgreSQL, other processes
can continue meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core.management.commands import migrate
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from panel.core.migration_locks import MigrationLocks

CHAIN = "migrations.unsquashed"


class Command(migrate.Command):
    locks: MigrationLocks

    def handle(self, *args: Any, **options: Any) -> None:
        self.locks = MigrationLocks(connections[options["database"]], self.stdout.write)
        try:
            self.migrate(*args, **options)
        except BaseException as error:
            self.locks.roll_back(error)
            raise

    def migration_progress_callback(self, action: str, migration: Any = None, fake: bool = False) -> None:
        """Begin and commit the transaction around each migration; Django calls this before and after each of them."""
        if action in ("apply_start", "unapply_start") and migration.atomic and not fake:
            self.locks.begin()
        if action in ("apply_success", "unapply_success"):
            self.locks.commit()
        super().migration_progress_callback(action, migration, fake)

    def migrate(self, *args: Any, **options: Any) -> None:
        if is_before_squash(options["database"]):
            if options["check_unapplied"]:
                sys.exit(1)
            with unsquashed():
                super().handle(*args, **{**options, "app_label": None, "migration_name": None})
            if options["plan"]:
                return
        super().handle(*args, **options)


def is_before_squash(alias: str) -> bool:
    """Return whether the database has some, but not all, of the migrations in migrations/unsquashed.
    False for a new database.
    """
    applied = set(MigrationRecorder(connections[alias]).applied_migrations())
    if not any(label in settings.MIGRATION_MODULES for label, _name in applied):
        return False
    with unsquashed():
        chain = {key for key in MigrationLoader(None).disk_migrations if key[0] in settings.MIGRATION_MODULES}
    return not chain <= applied


@contextmanager
def unsquashed() -> Iterator[None]:
    """Context manager in which Django loads migrations/unsquashed in place of the squashed migrations.

    Inside it, apps without a package in migrations/unsquashed have no migrations.
    """
    current = settings.MIGRATION_MODULES
    settings.MIGRATION_MODULES = {
        label: f"{CHAIN}.{label}" if find_spec(f"{CHAIN}.{label}") else None for label in current
    }
    try:
        yield
    finally:
        settings.MIGRATION_MODULES = current
