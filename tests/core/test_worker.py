"""The modules that a worker has loaded before its first task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOADS = """
import sys
from panel.celery import app
app.loader.import_default_modules()
assert len([name for name in app.tasks if name.startswith("panel.")]) > 3, sorted(app.tasks)
print([name for name in ("panel.urls", "panel.api.urls", "drf_spectacular.views", "reportlab") if name in sys.modules])
"""


@pytest.mark.cluster
def test_worker_does_not_load_pages_and_api(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "CELERY_SKIP_CHECKS"}
    done = subprocess.run(
        [sys.executable, "-c", LOADS],
        env=env | {"PADDOCK_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
