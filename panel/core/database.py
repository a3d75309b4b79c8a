"""Tell a database that is away from a query that failed."""

from __future__ import annotations

from django.db import DatabaseError, InterfaceError, connection, connections
from psycopg import Error as PsycopgError

RETRY_AFTER_S = 10
WEB_WAIT_S = 2.0  # for a connection; a visitor who waits longer has left

# SQLSTATEs of a server that stops, starts, or has no connection left (PostgreSQL documentation, appendix A).
_AWAY = {"53300", "57P01", "57P02", "57P03"}


def answers() -> bool:
    """Whether the database answers a query."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError):
        return False
    return True


def is_away(error: BaseException | None) -> bool:
    """Whether `error` says that the database cannot be reached. PostgreSQL's own errors say so by themselves; for
    others the database is asked."""
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, PsycopgError):
        return cause.sqlstate is None or cause.sqlstate.startswith("08") or cause.sqlstate in _AWAY
    return not answers()


def wait_briefly() -> None:
    """For a web process: give up on a connection after WEB_WAIT_S. A worker waits longer, since nobody is watching."""
    pool = connections.settings["default"].get("OPTIONS", {}).get("pool")
    if isinstance(pool, dict):
        pool["timeout"] = WEB_WAIT_S
