"""Any number of schedulers: each date is sent once, and none is missed when one of them is killed."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from panel.celery import app
from panel.core.models import PeriodicDate
from panel.core.scheduling import DatabaseScheduler
from panel.settings import BASE_DIR as ROOT
from tests.support.waiting import eventually

EVERY_S = 4.0  # of panel.deployments.tasks.sweep
TASK = "panel.deployments.tasks.sweep"


class Installation:
    """A panel of its own with an empty database and the queue of embedded mode; no worker takes the messages."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "PADDOCK_HOME": str(home), "DJANGO_SETTINGS_MODULE": "panel.settings"}
        self.schedulers: list[subprocess.Popen[bytes]] = []
        self.manage("migrate", "--verbosity", "0")

    def manage(self, *arguments: str) -> None:
        subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=self.env, check=True, timeout=300)

    def schedule(self) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "celery", "-A", "panel", "--quiet", "beat", "--pidfile", ""]
        with (self.home / "beat.log").open("ab") as log:
            process = subprocess.Popen(
                argv, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.schedulers.append(process)
        return process

    def dates(self) -> list[float]:
        """Times at which the task was sent, in seconds."""
        found = []
        for path in sorted((self.home / "queue").rglob("*.json")):
            if json.loads(path.read_text())["headers"]["task"] == TASK:
                found.append(int(path.name.split("-")[0]) / 1e9)
        return found

    def said(self) -> str:
        return (self.home / "beat.log").read_text()

    def end(self) -> None:
        for process in self.schedulers:
            if process.poll() is None:
                process.terminate()
            process.wait(30)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path / "home")
    yield made
    made.end()


def test_each_date_is_sent_once_while_schedulers_are_killed_at_random(installation: Installation) -> None:
    living = [installation.schedule() for _ in range(3)]
    assert eventually(lambda: len(installation.dates()) >= 2), installation.said()
    for _ in range(10):
        time.sleep(random.uniform(0.2, 2.0))
        victim = living.pop(random.randrange(len(living)))
        os.kill(victim.pid, signal.SIGKILL)
        living.append(installation.schedule())
    dates = installation.dates()
    gaps = [later - earlier for earlier, later in itertools.pairwise(dates)]
    assert len(gaps) >= 3
    assert min(gaps) > EVERY_S - 1, f"a date was sent twice: {gaps}"
    assert max(gaps) < EVERY_S + 4, f"a date was missed: {gaps}"


def test_scheduler_ends_within_ten_seconds_of_sigterm(installation: Installation) -> None:
    process = installation.schedule()
    assert eventually(lambda: bool(installation.dates())), installation.said()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) in (0, -signal.SIGTERM)


def slow_reads(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    """A database that is away for longer than an interval while the dates are read."""
    if sql.startswith("SELECT") and PeriodicDate._meta.db_table in sql:
        time.sleep(0.8)
    return execute(sql, params, many, context)


def test_date_after_an_outage_is_a_whole_interval_away(db: None) -> None:
    scheduler = DatabaseScheduler(app, lazy=True)
    entry = scheduler.Entry(name="short", task=TASK, schedule=0.5, app=app)
    scheduler.data = {"short": entry}
    PeriodicDate.objects.create(name="short", next_at=timezone.now())
    with connection.execute_wrapper(slow_reads):
        scheduler._look()
    assert PeriodicDate.objects.get(name="short").next_at > timezone.now(), "it would be sent again at once"
