"""The environment of the tests, set before Django reads panel/settings.py.

Loaded by `-p tests.environment` (pyproject.toml), which comes before pytest-django looks at the settings.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Thousands of tests, the panel and what it is made of stay to the end. Looking through them for what nobody refers to
# any more took a fifteenth of the time: not while they come, and afterwards only through what the tests make.
gc.disable()
GARBAGE = (20_000, 20, 50)  # new objects before a look, looks of one generation before one of the next

_given = os.environ.get("PADDOCK_HOME", "")
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
HOME = Path(_given or tempfile.mkdtemp(prefix="paddock-test-")) / WORKER  # each process of a parallel run has its own
(HOME / "static").mkdir(parents=True, exist_ok=True)
os.environ["PADDOCK_HOME"] = str(HOME)
os.environ.setdefault("PADDOCK_LOCAL_HOST_FOLDER", str(HOME / "host"))  # root's would lie below /var/lib else
os.environ.setdefault("PADDOCK_STATIC_MANIFEST", "0")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")


# Files whose tests go on where the one before ended, or share what there is only one of: one process runs them all.
# (The mark xdist_group does nothing with pytest 9.2 and xdist 3.8.)
TOGETHER = {
    "tests/accounts/test_setup.py",
    "tests/suites/browser/test_main_journey.py",
    "tests/suites/packages/test_debian_packages.py",
}


# Files that take longest come first, the longest before the others: what begins last is waited for by idle processes.
LONGEST = [
    "tests/suites/packages/test_debian_packages.py",
    "tests/suites/browser/test_main_journey.py",
    "tests/suites/browser/test_every_page.py",
    "tests/suites/browser/test_comparisons.py",
    "tests/suites/browser/test_traffic.py",
]


# What pytest-django opens the database for.
DATABASE_FIXTURES = {"db", "transactional_db", "live_server"}


class Scheduling(LoadScopeScheduling):
    """Every test by itself, except those of a file that stays together."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file in TOGETHER else nodeid


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", action="store_true", help="only tests that the database or the queue has a part in")


# It speaks async alone, so that the test client would take each of thousands of requests through two threads. The panel
# that the browser's journey starts has it, as a process of its own with the settings as they are.
UNUSED_MIDDLEWARE = "servestatic.middleware.ServeStaticMiddleware"


def pytest_configure(config: pytest.Config) -> None:
    from django.conf import settings

    settings.MIDDLEWARE.remove(UNUSED_MIDDLEWARE)
    config.addinivalue_line("markers", "cluster: settings of cluster mode count here, though no database is asked for")


@pytest.hookimpl(tryfirst=True)  # also where it is only told what others run
def pytest_runtestloop() -> None:
    # What is logged pytest keeps for those that fail; on the console each line would be written a second time.
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if type(handler) is not logging.StreamHandler]
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    gc.enable()


@pytest.hookimpl(trylast=True)  # the database fixtures of marked tests are known by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_rank)
    if not config.getoption("--cluster"):
        return
    chosen = [item for item in items if is_for_cluster(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def _rank(item: pytest.Item) -> int:
    file = item.nodeid.partition("::")[0]
    return LONGEST.index(file) if file in LONGEST else len(LONGEST)


def is_for_cluster(item: pytest.Item) -> bool:
    """pytest-django lets no other test near the database."""
    marked = any(item.iter_markers("django_db")) or any(item.iter_markers("cluster"))
    return marked or not DATABASE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _given and not WORKER:
        shutil.rmtree(HOME, ignore_errors=True)
