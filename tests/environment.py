"""The environment of the tests, set before Django reads panel/settings.py.

Loaded by `-p tests.environment` (pyproject.toml), which comes before pytest-django looks at the settings.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Modules and tests live until the end. Searching them for garbage again and again took half of the time of collecting
# the tests, so the collector is off until then, and afterwards leaves them out.
gc.disable()

_given = os.environ.get("PADDOCK_HOME", "")
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
# Each process of a parallel run has its own folder.
HOME = Path(_given or tempfile.mkdtemp(prefix="paddock-test-")) / WORKER
(HOME / "static").mkdir(parents=True, exist_ok=True)
os.environ["PADDOCK_HOME"] = str(HOME)
if "PADDOCK_REDIS_URL" in os.environ and WORKER:  # and its own database in Redis, which some tests clear
    os.environ["PADDOCK_REDIS_URL"] = os.environ["PADDOCK_REDIS_URL"].rpartition("/")[0] + f"/{WORKER.lstrip('gw')}"
os.environ.setdefault("PADDOCK_LOCAL_HOST_FOLDER", str(HOME / "host"))  # otherwise root's is below /var/lib
os.environ.setdefault("PADDOCK_STATIC_MANIFEST", "0")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")


# Each test named like this continues where the one before it ended: one process runs all steps of a file.
STEP = re.compile(r"test_step_\d")
# Files whose tests share a single resource: one process runs all tests of such a file.
# (The mark xdist_group does nothing with pytest 9.2 and xdist 3.8.)
TOGETHER = {
    "tests/accounts/test_setup.py",
    "tests/suites/faults/test_proxy_guide.py",
    "tests/suites/packages/test_debian_packages.py",
}


# The slowest files start first, the slowest at the top: a slow file that starts last leaves the other processes idle.
LONGEST = [
    "tests/suites/packages/test_debian_packages.py",
    "tests/suites/faults/test_rolling_upgrade.py",
    "tests/suites/browser/test_main_journey.py",
    "tests/suites/browser/test_first_hour.py",
    "tests/suites/browser/test_padlock.py",
    "tests/suites/browser/test_every_page.py",
    "tests/suites/browser/test_comparisons.py",
    "tests/suites/browser/test_traffic.py",
]


# The fixtures for which pytest-django opens the database.
DATABASE_FIXTURES = {"db", "transactional_db", "live_server"}
# The folder of real servers (tests/conftest.py).
SERVER_FIXTURE = "server_root"


class Scheduling(LoadScopeScheduling):
    """Schedule each test separately, except steps and the tests of files in TOGETHER."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return file if file in TOGETHER or STEP.match(test) else nodeid


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=sorted(PARTS), help="run only a part of the tests (see PARTS)")


# This middleware is async only, so each request of the test client would need two threads. The browser's main journey
# covers it: the panel there is a process with the full settings.
UNUSED_MIDDLEWARE = "servestatic.middleware.ServeStaticMiddleware"


def pytest_configure(config: pytest.Config) -> None:
    from django.conf import settings

    settings.MIDDLEWARE.remove(UNUSED_MIDDLEWARE)
    config.addinivalue_line(
        "markers", "cluster: the test depends on cluster mode settings although it uses no database"
    )
    config.addinivalue_line(
        "markers", "one_database(reason): the test uses the database, and a run on another database proves nothing more"
    )


@pytest.hookimpl(tryfirst=True)  # also in the process that distributes the tests
def pytest_runtestloop() -> None:
    # pytest keeps the log of failed tests. The console handler would print each line a second time.
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)  # the database fixtures of marked tests are known by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_rank)
    part = config.getoption("--part")
    if part is None:
        return
    chosen, others = [], []
    for item in items:
        (chosen if PARTS[part](item) else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


def _rank(item: pytest.Item) -> int:
    file = item.nodeid.partition("::")[0]
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def is_for_cluster(item: pytest.Item) -> bool:
    """Return whether a test uses the database or depends on cluster mode; pytest-django blocks it for all others.

    Tests marked `one_database` use it too, but run on SQLite only.
    """
    if any(item.iter_markers("one_database")):
        return False
    marked = any(item.iter_markers("django_db")) or any(item.iter_markers("cluster"))
    return marked or not DATABASE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def needs_servers_in_embedded_mode(item: pytest.Item) -> bool:
    """Return whether a test uses both the database and real servers.

    Such tests take half of the time of all tests of the database, mostly outside the database.
    """
    return is_for_cluster(item) and SERVER_FIXTURE in getattr(item, "fixturenames", ())


# The parts of the tests. `make test` runs the first two, the first on SQLite and the second in cluster mode; `make
# nightly` runs the third on SQLite.
PARTS: dict[str, Callable[[pytest.Item], bool]] = {
    "embedded": lambda item: not needs_servers_in_embedded_mode(item),
    "cluster": is_for_cluster,
    "embedded-servers": needs_servers_in_embedded_mode,
}


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _given and not WORKER:
        shutil.rmtree(HOME, ignore_errors=True)
