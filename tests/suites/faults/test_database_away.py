"""While PostgreSQL is unreachable the panel says so within seconds, and recovers with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import ServerProcess
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
ANSWER_WITHIN_S = 4.0  # two for the connection, the rest for a busy machine

MAKE_TOKEN = """
from panel.accounts.models import Role, Scope, User
from panel.accounts.services.tokens import token_create
user = User.objects.create(username="ada", role=Role.ADMIN)
print(token_create(actor=user, name="test", scopes=[Scope.READ])[1])
"""

SEND = """
from panel.celery import app
app.send_task("panel.deployments.tasks.follow_hosts")
"""


@dataclass
class Response:
    status: int
    retry_after: str
    body: str
    seconds: float


class Panel:
    def __init__(self, folder: Path, copy_of: Path) -> None:
        self.folder = folder
        self.postgres = Postgres(folder / "postgres", copy_of=copy_of).start()
        self.port = free_port()
        env = {"PADDOCK_HOME": str(folder / "home"), "PADDOCK_LOCAL_HOST": "0"}
        self.env = os.environ | env | {"PADDOCK_DATABASE_URL": self.postgres.url, "PADDOCK_REDIS_URL": ""}
        self.manage("prepare")
        self.token = self.manage("shell", "--no-imports", "-c", MAKE_TOKEN).strip().splitlines()[-1]
        argv = [sys.executable, str(ROOT / "manage.py"), "web", "--port", str(self.port)]
        self.web = ServerProcess(argv, folder / "web.log", env=self.env).start()
        self.web.wait_for_port(self.port)

    def manage(self, *arguments: str) -> str:
        argv = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ask(self, path: str) -> Response:
        request = urllib.request.Request(f"http://localhost:{self.port}{path}")
        request.add_header("Authorization", f"Bearer {self.token}")
        began = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Response(answer.status, "", answer.read().decode(), time.monotonic() - began)
        except urllib.error.HTTPError as error:
            retry_after = error.headers.get("Retry-After", "")
            return Response(error.code, retry_after, error.read().decode(), time.monotonic() - began)

    def background(self) -> ServerProcess:
        """Start the worker and the scheduler."""
        argv = [sys.executable, "-m", "celery", "-A", "panel", "worker", "--beat", "--loglevel", "INFO"]
        return ServerProcess(argv, self.folder / "worker.log", env=self.env, cwd=ROOT).start()

    def stop(self) -> None:
        self.web.stop()
        self.postgres.stop()


@pytest.fixture
def panel(migrated_postgres: Path) -> Iterator[Panel]:
    with tempfile.TemporaryDirectory(prefix="paddock-test-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as an account of its own
        running = Panel(Path(folder), migrated_postgres)
        yield running
        running.stop()


def test_panel_returns_503_while_database_is_away_and_recovers(panel: Panel) -> None:
    assert panel.ask("/api/v1/sites/").status == 200
    panel.postgres.process.stop()
    away = panel.ask("/api/v1/sites/")
    assert (away.status, away.retry_after) == (503, "10"), away
    assert json.loads(away.body)["type"] == "/api/v1/problems/unavailable/"
    assert away.seconds < ANSWER_WITHIN_S
    page = panel.ask("/login/")
    assert (page.status, page.retry_after) == (503, "10"), page
    assert page.seconds < ANSWER_WITHIN_S
    panel.postgres.process.start()
    panel.postgres.process.wait_for_port(panel.postgres.port)
    assert eventually(lambda: panel.ask("/healthz").status == 200)
    assert [panel.ask("/api/v1/sites/").status for _try in range(5)] == [200] * 5


def test_background_work_logs_lines_instead_of_tracebacks_while_database_is_away(panel: Panel) -> None:
    worker, log = panel.background(), panel.folder / "worker.log"
    try:
        assert eventually(lambda: "succeeded" in log.read_text())
        panel.postgres.process.stop()
        panel.manage("shell", "--no-imports", "-c", SEND)
        line = "the task panel.deployments.tasks.follow_hosts did not run: the database is unavailable"
        assert eventually(lambda: line in log.read_text(), timeout_s=120), log.read_text()
        assert "Traceback" not in log.read_text(), log.read_text()
        panel.postgres.process.start()
    finally:
        worker.stop(timeout_s=30)
