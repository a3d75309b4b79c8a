"""Fixtures that every test may use. Real servers live in temporary folders and on free ports."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import database_flush, page_templates

database_flush.install()
page_templates.install()

# One set of generated values for everybody, so that a change is judged by what it did. HYPOTHESIS_PROFILE=explore looks
# for new ones.
# A machine that is busy with other tests is slow, which says nothing about the one that runs.
_PATIENT = settings(print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", _PATIENT, derandomize=True)
settings.register_profile("explore", _PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/suites/golden anew; read the diff afterwards"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What a test leaves behind in the thread of all tests would make another one fail, in some orders only. Looked for
    before this one's own fixtures begin, which may have a browser."""
    if not item.nodeid.startswith("tests/suites/browser/"):
        assert asyncio._get_running_loop() is None, "an event loop of a test before goes on"


@pytest.fixture
def server_root() -> Iterator[Path]:
    """A short, world-readable temporary folder: Unix sockets fit in it and unprivileged workers can read it."""
    root = Path(tempfile.mkdtemp(prefix="pd-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root, ignore_errors=True)
