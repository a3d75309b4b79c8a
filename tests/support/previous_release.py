"""The code of an earlier version of the panel, from this repository's own history."""

from __future__ import annotations

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from tests.support.whole_panel import ROOT

# Has `drain`, and lacks columns that later migrations add to deployments, sites, certificates and their settings.
COMMIT = "d3e48a9674438fa282bd2c0cde0cd8b6102f0b3a"
FOLDERS = ("manage.py", "requirements.txt", "panel", "migrations", "templates", "static", "agents", "tests")


def unpack_previous_release(target: Path) -> Path:
    """Write the code into the folder, which must not exist. AssertionError in a clone without history."""
    argv = ["git", "-C", str(ROOT), "archive", COMMIT, *FOLDERS]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, f"the previous release is not in this clone: {done.stderr.decode()}"
    target.mkdir()
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter="data")
    return target
