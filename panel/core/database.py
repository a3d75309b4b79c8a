"""Detection of an unavailable database, as opposed to a failed query, and work that waits for its return."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, InterfaceError, connection, connections
from psycopg import Error as PsycopgError
from psycopg import InterfaceError as PsycopgInterfaceError
from psycopg import OperationalError as PsycopgOperationalError

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 10
_REPEAT_S = 1.0
WEB_WAIT_S = 2.0  # for a connection; visitors do not wait longer

# SQLSTATEs of a server that stops, starts, or has no free connection (PostgreSQL documentation, appendix A).
_AWAY = {"53300", "57P01", "57P02", "57P03"}


def answers() -> bool:
    """Return whether the database executes a query now."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError):
        return False
    return True


def is_away(error: BaseException | None) -> bool:
    """Return whether `error` means that the database is unavailable. The code of an error from PostgreSQL decides;
    for all other errors, the result of a test query decides.
    """
    if not isinstance(error, DatabaseError | InterfaceError):
        return False
    cause = error.__cause__
    if isinstance(cause, PsycopgError):
        return cause.sqlstate is None or cause.sqlstate.startswith("08") or cause.sqlstate in _AWAY
    return not answers()


def is_connection_error(error: BaseException) -> bool:
    """Return whether `error` is PostgreSQL's or its driver's report that the database is unavailable. Unlike `is_away`,
    this never makes a query.
    """
    cause = error.__cause__
    if not isinstance(error, DatabaseError | InterfaceError) or not isinstance(cause, PsycopgError):
        return False
    state = cause.sqlstate
    if state is None:
        return isinstance(cause, PsycopgOperationalError | PsycopgInterfaceError)
    return state.startswith("08") or state in _AWAY


def wait_briefly() -> None:
    """Limit to WEB_WAIT_S seconds how long this process, a web process, waits for a connection from the pool. Workers
    wait longer.
    """
    pool = connections.settings["default"].get("OPTIONS", {}).get("pool")
    if isinstance(pool, dict):
        pool["timeout"] = WEB_WAIT_S


def once_it_responds(work: Callable[[], object], what: str) -> None:
    """Run `work`; if the database is unavailable, return at once and repeat `work` in a thread until it succeeds.

    Use this for writes that release a claim or a lock that other processes wait for. `what` describes the work in the
    log.
    """
    try:
        work()
    except (DatabaseError, InterfaceError) as error:
        if not is_away(error):
            raise
        logger.warning("the database is unavailable; later: %s", what)
        threading.Thread(target=_repeat, args=(work, what), name=what, daemon=True).start()


def _repeat(work: Callable[[], object], what: str) -> None:
    while True:
        time.sleep(_REPEAT_S)
        try:
            work()
        except (DatabaseError, InterfaceError) as error:
            if is_away(error):
                continue
            logger.exception("failed after the database was back: %s", what)
        finally:
            connection.close()
        return
