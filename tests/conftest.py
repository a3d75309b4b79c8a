"""Fixtures that every test may use. Real servers live in temporary folders and on free ports."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import environment
from tests.support import database_flush, migrated_copies, migrated_database

database_flush.install()

# Generated values are the same on every run, so that a failure comes from the change. HYPOTHESIS_PROFILE=explore looks
# for new values. Deadlines are off, because a busy machine says nothing about the test.
_PATIENT = settings(print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _PATIENT, derandomize=True)
settings.register_profile("explore", _PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


if environment.WORKER:

    @pytest.fixture(scope="session")
    def django_db_setup(
        django_test_environment: None, django_db_modify_db_settings: None, django_db_blocker: Any, testrun_uid: str
    ) -> Iterator[None]:
        """The test database of one process of a parallel run, in place of pytest-django's, which migrates each."""
        with django_db_blocker.unblock():
            former = migrated_database.create(environment.HOME.parent, testrun_uid)
        yield
        with django_db_blocker.unblock():
            migrated_database.destroy(former)


# A folder of all processes of the run.
SHARED = environment.HOME.parent if environment.WORKER else environment.HOME


@pytest.fixture(scope="session")
def migrated_postgres(testrun_uid: str) -> Path:
    """`copy_of` of PostgreSQL servers whose panel finds its tables."""
    return migrated_copies.postgres_data(SHARED, testrun_uid)


@pytest.fixture(scope="session")
def migrated_sqlite(testrun_uid: str) -> Path:
    """To copy to `paddock.sqlite3` in the data folder of a panel, which finds its tables then."""
    return migrated_copies.sqlite_file(SHARED, testrun_uid)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/suites/golden; read the diff afterwards"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Check that the test before left no event loop running, which would fail later tests in some orders only.

    Runs before the fixtures of this test, which may start a browser.
    """
    if not item.nodeid.startswith("tests/suites/browser/"):
        assert asyncio._get_running_loop() is None, "the event loop of an earlier test is still running"


@pytest.fixture
def server_root() -> Iterator[Path]:
    """A short, world-readable temporary folder: Unix sockets fit in it and unprivileged workers can read it."""
    root = Path(tempfile.mkdtemp(prefix="pd-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root, ignore_errors=True)
