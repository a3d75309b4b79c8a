"""Fixtures that every test may use. Real servers live in temporary folders and on free ports.

The environment must be set before Django reads panel/settings.py; this file is read first.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_given = os.environ.get("PADDOCK_HOME", "")
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
HOME = Path(_given or tempfile.mkdtemp(prefix="paddock-test-")) / _worker  # each process of a parallel run has its own
(HOME / "static").mkdir(parents=True, exist_ok=True)
os.environ["PADDOCK_HOME"] = str(HOME)
os.environ.setdefault("PADDOCK_STATIC_MANIFEST", "0")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew; read the diff afterwards")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _given and not _worker:
        shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture
def server_root() -> Iterator[Path]:
    """A short, world-readable temporary folder: Unix sockets fit in it and unprivileged workers can read it."""
    root = Path(tempfile.mkdtemp(prefix="pd-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root, ignore_errors=True)
