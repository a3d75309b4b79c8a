"""Databases with the panel's tables: one process of a run makes each, and what needs tables begins with a copy.

Migrating an empty database takes 16 seconds of CPU, longer than most tests of a whole panel.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]


def postgres_data(folder: Path, run: str) -> Path:
    """The data folder of a stopped server; `folder` is shared by all processes of the run."""
    return _made_once(folder / "migrated_postgres", run, _make_postgres)


def sqlite_file(folder: Path, run: str) -> Path:
    """The database of a panel in embedded mode; `folder` is shared by all processes of the run."""
    return _made_once(folder / "migrated.sqlite3", run, _make_sqlite)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock of the file `path`. Other processes that want it wait."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _made_once(path: Path, run: str, make: Callable[[Path, Path], None]) -> Path:
    """Call `make` with an empty folder and `path`, unless a process of this run did: an earlier run had other code."""
    made_by = path.with_name(f"{path.name}.run")
    with locked(path.with_name(f"{path.name}.lock")):
        if not made_by.exists() or made_by.read_text() != run:
            subprocess.run(["rm", "--recursive", "--force", str(path)], check=True)
            with tempfile.TemporaryDirectory(prefix="pd-") as name:
                Path(name).chmod(0o755)  # PostgreSQL runs as an account of its own
                make(Path(name), path)
            made_by.write_text(run)
    return path


def _make_postgres(root: Path, path: Path) -> None:
    with Postgres(root / "postgres") as postgres:
        _migrate(root / "home", PADDOCK_DATABASE_URL=postgres.url)
    shutil.move(postgres.data, path)


def _make_sqlite(root: Path, path: Path) -> None:
    _migrate(root / "home", PADDOCK_DATABASE_URL=f"sqlite:///{root / 'migrated.sqlite3'}")
    shutil.move(root / "migrated.sqlite3", path)


def _migrate(home: Path, **variables: str) -> None:
    env = os.environ | variables | {"PADDOCK_HOME": str(home)}
    argv = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
