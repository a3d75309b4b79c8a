"""The database of a parallel run is migrated by one of its processes; the others copy what that one has made.

All migrations cost three seconds of CPU, which each of three or four processes took before its first test.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.backends.base.creation import BaseDatabaseCreation

COPY = "paddock_migrated"


def install(folder: Path, run: str) -> None:
    """From now on test databases are made so. `folder` belongs to all processes of this run, and perhaps to those of
    one before it, whose database is of no use: `run` tells them apart."""
    migrate = BaseDatabaseCreation.create_test_db

    def create(creation: Any, *arguments: Any, **options: Any) -> str:
        return _create(creation, lambda: migrate(creation, *arguments, **options), folder, run)

    BaseDatabaseCreation.create_test_db = create


def _create(creation: Any, migrate: Callable[[], str], folder: Path, run: str) -> str:
    connection, made, made_by = creation.connection, folder / COPY, folder / f"{COPY}.run"
    with _alone(folder):
        if made_by.exists() and made_by.read_text() == run:
            name = _take(connection, creation._get_test_db_name(), made)
        else:
            name = migrate()
            _keep(connection, name, made)
            made_by.write_text(run)
    connection.ensure_connection()
    return name


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / f"{COPY}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _keep(connection: Any, name: str, made: Path) -> None:
    connection.close()  # SQLite writes back its log
    if connection.vendor == "sqlite":
        shutil.copyfile(name, made)
        return
    connection.close_pool()  # PostgreSQL copies nothing that is in use
    with connection.creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {COPY}")  # of an earlier run on a server that stays
        cursor.execute(f"CREATE DATABASE {COPY} TEMPLATE {connection.ops.quote_name(name)}")


def _take(connection: Any, name: str, made: Path) -> str:
    connection.close()
    if connection.vendor == "sqlite":
        shutil.copyfile(made, name)
    else:
        quoted = connection.ops.quote_name(name)
        with connection.creation._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {quoted}")
            cursor.execute(f"CREATE DATABASE {quoted} TEMPLATE {COPY}")
    settings.DATABASES[connection.alias]["NAME"] = name
    connection.settings_dict["NAME"] = name
    return name
