"""A whole panel whose Redis ends or hangs: pages respond, and deployments are carried out from the rows."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.suites.renewals.scene import Scene, scene
from tests.support.waiting import eventually
from tests.support.whole_panel import WholePanel

ROWS = "tests.suites.renewals.rows"
SITE = "site-1-1"
POST_WITHIN_S = 3.0  # one second for Redis, the rest for a busy machine


@pytest.fixture
def world(server_root: Path, migrated_postgres: Path) -> Iterator[tuple[WholePanel, Scene]]:
    with scene(server_root / "hosts", hosts=1, sites=1) as found:
        panel = WholePanel(server_root / "panel", ROWS, found.given(), copy_of=migrated_postgres)
        panel.start()
        try:
            yield panel, found
        finally:
            panel.stop()


def deployed(panel: WholePanel, megabytes: int, within_s: float) -> dict[str, Any]:
    """The end of a deployment of a changed draft."""
    assert panel.call("PATCH", f"sites/{SITE}/", {"cache_mb": megabytes})[0] == 200
    uuid = panel.deploy(SITE)
    assert uuid, panel.log.read_text()
    path = f"deployments/{uuid}/"
    assert eventually(lambda: panel.call("GET", path)[1]["is_finished"], timeout_s=within_s), panel.log.read_text()
    row: dict[str, Any] = panel.call("GET", path)[1]
    return row


def test_work_goes_on_while_redis_is_away(world: tuple[WholePanel, Scene]) -> None:
    panel, _found = world
    assert deployed(panel, 200, 20)["status"] == "succeeded"
    panel.redis.stop()
    for megabytes in (201, 202):
        assert deployed(panel, megabytes, 20)["status"] == "succeeded"
    for page in ("/", "/sites/", f"/sites/{SITE}/", "/hosts/renewal-1/", "/benchmarks/"):
        assert panel.page(page), page
    seen = json.loads(panel.run(["-c", SEEN]))
    assert eventually(lambda: json.loads(panel.run(["-c", SEEN])) > seen, timeout_s=60), "hosts are looked at"
    panel.redis.start()
    assert deployed(panel, 203, 45)["status"] == "succeeded"
    log = panel.log.read_text()
    assert "Redis does not respond: this worker finds its work in the database" in log
    assert eventually(lambda: "Redis responds again" in panel.log.read_text())
    assert "Traceback" not in log.split("Redis does not respond")[1], log


def test_work_goes_on_while_redis_hangs(world: tuple[WholePanel, Scene]) -> None:
    panel, _found = world
    assert panel.redis.process.process
    panel.redis.process.process.send_signal(signal.SIGSTOP)
    try:
        seconds = [checked(panel) for _ in range(3)]
        assert max(seconds) < POST_WITHIN_S, seconds
        for megabytes in (201, 202):
            assert deployed(panel, megabytes, 30)["status"] == "succeeded"
    finally:
        panel.redis.process.process.send_signal(signal.SIGCONT)
    assert deployed(panel, 203, 45)["status"] == "succeeded"


def checked(panel: WholePanel) -> float:
    """Seconds of a POST that starts a job, whose message goes to Redis. No other is started until the job has ended."""
    began = time.monotonic()
    status, job = panel.call("POST", "hosts/renewal-1/check/")
    seconds = time.monotonic() - began
    assert status == 202, job
    path = f"jobs/{job['uuid']}/"
    assert eventually(lambda: panel.call("GET", path)[1]["is_finished"], timeout_s=40), panel.log.read_text()
    return seconds


SEEN = """
import django, json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
django.setup()
from panel.hosts.models import Host
print(json.dumps(Host.objects.get().last_seen_at.isoformat()))
"""
