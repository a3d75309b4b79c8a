"""The test database of a parallel run: one process migrates it, the others copy the result.

The migrations cost three seconds of CPU, which each of three or four processes would take before its first test.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

COPY = "paddock_migrated"


def create(folder: Path, run: str) -> str:
    """Create this process's test database and use it. Returns the name of the former one, for `destroy`.

    `folder` is shared by all processes of a run, and perhaps with an earlier run, whose database is out of date: `run`
    tells them apart.
    """
    former, copy, made_by = connection.settings_dict["NAME"], folder / COPY, folder / f"{COPY}.run"
    with locked(folder / f"{COPY}.lock"):
        if made_by.exists() and made_by.read_text() == run:
            _take(copy)
        else:
            _keep(connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False), copy)
            made_by.write_text(run)
    connection.ensure_connection()
    return str(former)


def destroy(former: str) -> None:
    """Delete this process's test database."""
    connection.creation.destroy_test_db(former, verbosity=0)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes that lock the file `path` waiting."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _keep(name: str, copy: Path) -> None:
    """Copy the migrated database `name` for the other processes."""
    connection.close()  # SQLite writes back its log
    if connection.vendor == "sqlite":
        shutil.copyfile(name, copy)
        return
    _close_pool()  # PostgreSQL copies no database that is in use
    with connection.creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {COPY}")  # of an earlier run on a server that stays
        cursor.execute(f"CREATE DATABASE {COPY} TEMPLATE {connection.ops.quote_name(name)}")


def _take(copy: Path) -> None:
    """Create this process's test database from the copy, and use it from now on."""
    name = connection.creation._get_test_db_name()
    connection.close()
    if connection.vendor == "sqlite":
        shutil.copyfile(copy, name)
    else:
        quoted = connection.ops.quote_name(name)
        with connection.creation._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {quoted}")
            cursor.execute(f"CREATE DATABASE {quoted} TEMPLATE {COPY}")
    settings.DATABASES[connection.alias]["NAME"] = name
    connection.settings_dict["NAME"] = name


def _close_pool() -> None:
    database: Any = connection
    database.close_pool()
