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

os.environ.setdefault("PADDOCK_HOME", tempfile.mkdtemp(prefix="paddock-test-"))
os.environ.setdefault("PADDOCK_STATIC_MANIFEST", "0")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew; review the diff")


def pytest_unconfigure(config: pytest.Config) -> None:
    home = os.environ["PADDOCK_HOME"]
    if Path(home).name.startswith("paddock-test-"):
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def server_root() -> Iterator[Path]:
    """A short, world-readable temporary folder: Unix sockets fit in it and unprivileged workers can read it."""
    root = Path(tempfile.mkdtemp(prefix="pd-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root, ignore_errors=True)
