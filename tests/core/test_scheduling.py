"""Any number of schedulers: each date is sent once, and none is missed when one of them is killed."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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


class Scheduler(NamedTuple):
    process: subprocess.Popen[bytes]
    log: Path

    def runs(self) -> bool:
        return "beat: Starting" in self.log.read_text()


class Installation:
    """A panel of its own with the queue of embedded mode, whose messages no worker takes.

    Its database begins as a copy of `migrated`, which has the tables and no rows.
    """

    def __init__(self, home: Path, migrated: Path) -> None:
        self.home = home
        self.env = {**os.environ, "PADDOCK_HOME": str(home), "DJANGO_SETTINGS_MODULE": "panel.settings"}
        self.schedulers: list[Scheduler] = []
        home.mkdir()
        shutil.copyfile(migrated, home / "paddock.sqlite3")

    def schedule(self) -> Scheduler:
        argv = [sys.executable, "-m", "celery", "-A", "panel", "beat", "--pidfile", "", "--loglevel", "info"]
        said = self.home / f"beat-{len(self.schedulers)}.log"
        with said.open("wb") as log:
            process = subprocess.Popen(
                argv, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.schedulers.append(Scheduler(process, said))
        return self.schedulers[-1]

    def dates(self) -> dict[str, list[float]]:
        """When each date of the task was sent, in seconds, by the id that names the date."""
        found: dict[str, list[float]] = {}
        for path in sorted((self.home / "queue").rglob("*.json")):
            headers = json.loads(path.read_text())["headers"]
            if headers["task"] == TASK:
                found.setdefault(headers["id"], []).append(int(path.name.split("-")[0]) / 1e9)
        return found

    def said(self) -> str:
        return "\n".join(scheduler.log.read_text() for scheduler in self.schedulers)

    def end(self) -> None:
        for scheduler in self.schedulers:
            if scheduler.process.poll() is None:
                scheduler.process.terminate()
            scheduler.process.wait(30)


@pytest.fixture
def installation(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Installation]:
    made = Installation(tmp_path / "home", migrated_sqlite)
    yield made
    made.end()


def test_each_date_is_sent_once_while_schedulers_are_killed_at_random(installation: Installation) -> None:
    living = [installation.schedule() for _ in range(3)]
    for _ in range(10):
        # A new scheduler needs seconds to start: without one that runs, a date waits, as it must.
        assert eventually(lambda: all(one.runs() for one in living)), installation.said()
        time.sleep(random.uniform(0.2, 2.0))
        victim = living.pop(random.randrange(len(living)))
        os.kill(victim.process.pid, signal.SIGKILL)
        living.append(installation.schedule())
    assert eventually(lambda: len(installation.dates()) >= 4), installation.said()
    sent = list(installation.dates().values())
    assert sum(len(times) - 1 for times in sent) <= 1, f"only a kill before the commit may send a date again: {sent}"
    gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(sent)]
    assert min(gaps) > EVERY_S - 1, f"a date was sent twice: {gaps}"
    assert max(gaps) < EVERY_S + 4, f"a date was missed: {gaps}\n{installation.said()}"


def test_scheduler_ends_within_ten_seconds_of_sigterm(installation: Installation) -> None:
    scheduler = installation.schedule()
    assert eventually(lambda: bool(installation.dates())), installation.said()
    scheduler.process.send_signal(signal.SIGTERM)
    assert scheduler.process.wait(10) in (0, -signal.SIGTERM)


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
