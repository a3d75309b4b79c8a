"""The environment of the tests, set before Django reads panel/settings.py.

Loaded by `-p tests.environment` (pyproject.toml), which comes before pytest-django looks at the settings.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

_given = os.environ.get("PADDOCK_HOME", "")
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
HOME = Path(_given or tempfile.mkdtemp(prefix="paddock-test-")) / _worker  # each process of a parallel run has its own
(HOME / "static").mkdir(parents=True, exist_ok=True)
os.environ["PADDOCK_HOME"] = str(HOME)
os.environ.setdefault("PADDOCK_STATIC_MANIFEST", "0")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not _given and not _worker:
        shutil.rmtree(HOME, ignore_errors=True)
