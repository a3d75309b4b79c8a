"""The test database of a parallel run: one process migrates a database, and each process tests on a copy of it.

On SQLite that is the same copy with which panels of the tests begin. The migrations cost 16 seconds of CPU, which each
of three or four processes would take before its first test.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from tests.support.migrated_copies import locked, sqlite_file

COPY = "paddock_migrated"


def create(folder: Path, run: str) -> str:
    """Create this process's test database and use it. Returns the name of the former one, for `destroy`.

    `folder` is shared by all processes of a run, and perhaps with an earlier run, whose database is out of date: `run`
    tells them apart.
    """
    former = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        name = connection.creation._get_test_db_name()
        connection.close()
        shutil.copyfile(sqlite_file(folder, run), name)
        _use(name)
    else:
        _create_on_postgres(folder, run)
    connection.ensure_connection()
    return str(former)


def destroy(former: str) -> None:
    """Delete this process's test database."""
    connection.creation.destroy_test_db(former, verbosity=0)


def _create_on_postgres(folder: Path, run: str) -> None:
    made_by = folder / f"{COPY}.run"
    with locked(folder / f"{COPY}.lock"):
        if made_by.exists() and made_by.read_text() == run:
            _take()
        else:
            _keep(connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False))
            made_by.write_text(run)


def _keep(name: str) -> None:
    """Copy the migrated database `name` for the other processes."""
    connection.close()
    _close_pool()  # PostgreSQL copies no database that is in use
    with connection.creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {COPY}")  # of an earlier run on a server that stays
        cursor.execute(f"CREATE DATABASE {COPY} TEMPLATE {connection.ops.quote_name(name)}")


def _take() -> None:
    """Create this process's test database from the copy, and use it from now on."""
    name = connection.creation._get_test_db_name()
    quoted = connection.ops.quote_name(name)
    connection.close()
    with connection.creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {quoted}")
        cursor.execute(f"CREATE DATABASE {quoted} TEMPLATE {COPY}")
    _use(name)


def _use(name: str) -> None:
    settings.DATABASES[connection.alias]["NAME"] = name
    connection.settings_dict["NAME"] = name


def _close_pool() -> None:
    database: Any = connection
    database.close_pool()
