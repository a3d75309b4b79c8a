"""Table locks on PostgreSQL, for migrations that run while other processes handle requests.

A migration locks each table that it changes until its transaction ends. A request that holds one of these tables and
waits for another would end as a deadlock. Therefore, a migration locks all tables before it changes any. Requests then
wait for the end of the migration, without deadlocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from django.core.management.base import CommandError
from django.db import OperationalError, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

LOCK_WITHIN_S = 120.0
PAUSE_S = 0.2
# PostgreSQL looks for deadlocks after a wait of one second (deadlock_timeout). An attempt to lock all tables is
# shorter.
ATTEMPT_S = 0.7
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '200ms'"
VACUUM_TIMEOUT = "SET LOCAL lock_timeout = '1500ms'"
NO_TIMEOUTS = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0"
# Tables that this role may lock, always in the same order.
TABLES = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n
ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND pg_table_is_visible(c.oid)
AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND pg_has_role(c.relowner, 'USAGE') ORDER BY c.oid
"""
# https://www.postgresql.org/docs/current/errcodes-appendix.html
LOCK_NOT_AVAILABLE = "55P03"


class MigrationLocks:
    """Transactions of migrations, one at a time, with locks of all tables.

    `say` is called with a line of text when a migration waits for other processes.
    """

    def __init__(self, connection: BaseDatabaseWrapper, say: Callable[[str], None]) -> None:
        self.connection, self.say = connection, say
        self.opened = ExitStack()

    def begin(self) -> None:
        """Open a transaction that has locked every table; do nothing on databases other than PostgreSQL.

        Raises CommandError if the tables cannot be locked within LOCK_WITHIN_S seconds.
        """
        if self.connection.vendor != "postgresql":
            return
        end, said = time.monotonic() + LOCK_WITHIN_S, False
        while blocked := self._lock_all():
            if time.monotonic() > end:
                raise CommandError(
                    f"The table {blocked} could not be locked within {LOCK_WITHIN_S:.0f} s, because other processes "
                    "use it all the time. Migrations that are done are kept. Stop long queries and backups of this "
                    "database (pg_stat_activity lists them), or stop the panel's processes, and migrate again."
                )
            if not said:
                self.say("waiting until other processes release the tables")
                said = True
            time.sleep(PAUSE_S)
            self._wait_for(blocked)

    def commit(self) -> None:
        self.opened.close()

    def roll_back(self, error: BaseException) -> None:
        """Roll back the transaction of the open migration, which failed with `error`."""
        self.opened.__exit__(type(error), error, error.__traceback__)

    def _lock_all(self) -> str:
        """Try to lock every table. Return "" if all tables are locked, otherwise the name of a table that another
        process uses.
        """
        with ExitStack() as opened:
            opened.enter_context(transaction.atomic(using=self.connection.alias))
            cursor = opened.enter_context(self.connection.cursor())
            cursor.execute(TABLES)
            tables = [table for (table,) in cursor.fetchall()]
            end = time.monotonic() + ATTEMPT_S
            for table in tables:
                if time.monotonic() > end or not self._has_locked(table, LOCK_TIMEOUT):
                    transaction.set_rollback(True, using=self.connection.alias)
                    return str(table)
            cursor.execute(NO_TIMEOUTS)
            self.opened = opened.pop_all()
        return ""

    def _wait_for(self, table: str) -> None:
        """Wait until the table can be locked, at most for VACUUM_TIMEOUT. Other tables stay unlocked meanwhile.

        The timeout is longer than one second: after one second, PostgreSQL cancels an autovacuum that holds the table.
        """
        with transaction.atomic(using=self.connection.alias):
            self._has_locked(table, VACUUM_TIMEOUT)
            transaction.set_rollback(True, using=self.connection.alias)

    def _has_locked(self, table: str, timeout: str) -> bool:
        with self.connection.cursor() as cursor:
            cursor.execute(timeout)
            try:
                cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            except OperationalError as error:
                if getattr(error.__cause__, "sqlstate", "") != LOCK_NOT_AVAILABLE:
                    raise
                return False
        return True
