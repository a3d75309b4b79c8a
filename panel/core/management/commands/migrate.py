"""`manage.py migrate`: Django's, for databases of every earlier version.

The migrations of each app were squashed into one. The chain in migrations/unsquashed first brings a database from
before to the state that the squashed migrations describe. On PostgreSQL other processes may go on meanwhile.
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
        """Django calls this before and after each migration; the transaction around it begins and ends here."""
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
    """Return whether the database has a part of the chain, but not all of it. A new database has nothing yet."""
    applied = set(MigrationRecorder(connections[alias]).applied_migrations())
    if not any(label in settings.MIGRATION_MODULES for label, _name in applied):
        return False
    with unsquashed():
        chain = {key for key in MigrationLoader(None).disk_migrations if key[0] in settings.MIGRATION_MODULES}
    return not chain <= applied


@contextmanager
def unsquashed() -> Iterator[None]:
    """Let Django load the chain in place of the squashed migrations. Apps that are newer than the chain have none."""
    current = settings.MIGRATION_MODULES
    settings.MIGRATION_MODULES = {
        label: f"{CHAIN}.{label}" if find_spec(f"{CHAIN}.{label}") else None for label in current
    }
    try:
        yield
    finally:
        settings.MIGRATION_MODULES = current
