"""The limit of open files: raised at the start, and never reached by connections to hosts."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from panel.core import open_files
from panel.remote import pool
from panel.settings import BASE_DIR as ROOT


@pytest.mark.parametrize("module", ["panel.asgi", "panel.celery"])
def test_processes_raise_their_limit_of_open_files(module: str) -> None:
    code = (
        "import resource; hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)); "
        f"import {module}; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    soft, hard = map(int, done.stdout.split()[-2:])
    assert soft == (65_536 if hard in (-1, resource.RLIM_INFINITY) else min(hard, 65_536))


def test_limit_allows_connections_to_as_many_hosts_as_half_of_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "limit", lambda: 1024)
    assert open_files.most_hosts() == 170
    monkeypatch.setattr(open_files, "limit", lambda: 10)
    assert open_files.most_hosts() == 8
    assert pool.most_hosts is open_files.most_hosts
