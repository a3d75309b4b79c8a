"""Distinguish an unavailable database from a failed query."""

from __future__ import annotations

from django.db import DatabaseError, InterfaceError, connection, connections
from psycopg import Error as PsycopgError

RETRY_AFTER_S = 10
WEB_WAIT_S = 2.0  # for a connection; visitors do not wait longer

# SQLSTATEs of a server that stops, starts, or has no free connection (PostgreSQL documentation, appendix A).
_AWAY = {"53300", "57P01", "57P02", "57P03"}


def answers() -> bool:
    """Return whether the database executes a query."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError):
        return False
    return True


def is_away(error: BaseException | None) -> bool:
    """Return whether `error` means that the database is unavailable. PostgreSQL's errors tell; for others the database
    is queried.
    """
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, PsycopgError):
        return cause.sqlstate is None or cause.sqlstate.startswith("08") or cause.sqlstate in _AWAY
    return not answers()


def wait_briefly() -> None:
    """Limit the wait for a connection to WEB_WAIT_S in a web process. Workers wait longer."""
    pool = connections.settings["default"].get("OPTIONS", {}).get("pool")
    if isinstance(pool, dict):
        pool["timeout"] = WEB_WAIT_S
