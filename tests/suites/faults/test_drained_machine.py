"""A drained machine leaves the messages of a shared Redis to the workers of other machines."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.suites.renewals.scene import scene
from tests.support.process import tool
from tests.support.waiting import eventually
from tests.support.whole_panel import WholePanel

ROWS = "tests.suites.renewals.rows"
SITE = "site-1-1"


@pytest.fixture
def panel(server_root: Path, migrated_postgres: Path) -> Iterator[WholePanel]:
    with scene(server_root / "hosts", hosts=1, sites=1) as found:
        panel = WholePanel(server_root / "panel", ROWS, found.given(), copy_of=migrated_postgres)
        panel.start()
        try:
            yield panel
        finally:
            panel.stop()


def waiting(panel: WholePanel) -> int:
    """Number of messages that no worker has taken."""
    argv = [tool("redis-cli"), "-p", str(panel.redis.port), "LLEN", "celery"]
    return int(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=10).stdout)


@pytest.mark.cluster
def test_drained_machine_takes_no_messages_until_it_is_drained_no_longer(panel: WholePanel) -> None:
    assert eventually(lambda: waiting(panel) == 0)
    panel.run(["manage.py", "drain"])
    assert panel.call("PATCH", f"sites/{SITE}/", {"cache_mb": 200})[0] == 200
    uuid = panel.deploy(SITE)
    assert eventually(lambda: waiting(panel) > 4), "the scheduler's messages wait"
    assert panel.call("GET", f"deployments/{uuid}/")[1]["status"] == "queued"
    panel.run(["manage.py", "drain", "--end"])
    assert eventually(lambda: panel.call("GET", f"deployments/{uuid}/")[1]["status"] == "succeeded")
    assert eventually(lambda: waiting(panel) == 0)
    assert "Traceback" not in panel.log.read_text()
