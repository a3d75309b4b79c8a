"""`manage.py migrate` beside transactions of other processes, on PostgreSQL: neither ends as a deadlock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from panel.core import migration_locks
from tests.support.postgres import Postgres
from tests.support.process import ServerProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.one_database("each test has its own PostgreSQL")

# Locks sites first and servers of upstreams last.
APP, BEFORE, AFTER = "websites", "0021_labels_of_fields", "0022_newest_and_search"
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation::regclass::text LIKE 'websites_%'"


@dataclass
class Migrations:
    postgres: Postgres
    folder: Path

    def start(self, name: str, within_s: float = migration_locks.LOCK_WITHIN_S) -> ServerProcess:
        """`manage.py migrate` to that migration, in another process."""
        program = "import sys; from panel.core import migration_locks; from django.core import management\n"
        program += f"migration_locks.LOCK_WITHIN_S = {within_s}; management.execute_from_command_line(sys.argv)"
        env = {"PADDOCK_DATABASE_URL": self.postgres.url, "PADDOCK_HOME": str(self.folder)}
        env["DJANGO_SETTINGS_MODULE"] = "panel.settings"
        argv = [sys.executable, "-c", program, "migrate", APP, name]
        return ServerProcess(argv, self.folder / f"{name}.log", env=env).start()

    def waits(self) -> bool:
        return self.postgres.query(WAITING) != "0"

    def applied(self) -> bool:
        return bool(self.postgres.query(f"SELECT 1 FROM django_migrations WHERE name = '{AFTER}'"))


def code_of(process: ServerProcess) -> int:
    assert process.process is not None
    return process.process.wait(timeout=60)


@pytest.fixture
def migrations(tmp_path: Path, server_root: Path, migrated_postgres: Path) -> Iterator[Migrations]:
    """A database that lacks the last migration of websites."""
    with Postgres(server_root / "postgres", copy_of=migrated_postgres) as postgres:
        found = Migrations(postgres, tmp_path)
        process = found.start(BEFORE)
        assert code_of(process) == 0, process.said()
        yield found


def test_transaction_that_locks_in_another_order_is_no_deadlock(migrations: Migrations) -> None:
    with psycopg.connect(migrations.postgres.url) as client:
        client.execute("LOCK TABLE websites_upstreamserver IN ROW EXCLUSIVE MODE")
        process = migrations.start(AFTER)
        assert eventually(migrations.waits), process.said()
        client.execute("LOCK TABLE websites_site IN ROW EXCLUSIVE MODE")
        client.execute("SELECT pg_sleep(2)")
        assert not migrations.applied()
    assert code_of(process) == 0, process.said()
    assert "waiting until other processes release the tables" in process.said()
    assert migrations.applied()


def test_migration_ends_with_a_clear_error_beside_an_endless_transaction(migrations: Migrations) -> None:
    with psycopg.connect(migrations.postgres.url) as client:
        client.execute("LOCK TABLE websites_site IN ROW EXCLUSIVE MODE")
        process = migrations.start(AFTER, within_s=2)
        assert code_of(process) == 1
        assert "CommandError: The table public.websites_site could not be locked within 2 s" in process.said()
    assert not migrations.applied()
    again = migrations.start(AFTER)
    assert code_of(again) == 0, again.said()


def test_requests_wait_for_a_migration_and_go_on(migrations: Migrations) -> None:
    process = migrations.start(AFTER)
    with psycopg.connect(migrations.postgres.url, autocommit=True) as client:
        while process.process is not None and process.process.poll() is None:
            client.execute("SELECT count(*) FROM websites_site")
    assert code_of(process) == 0, process.said()
    assert migrations.applied()
