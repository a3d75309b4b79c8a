"""A whole panel on PostgreSQL and Redis, its pages as an administrator sees them, and its API."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import ServerProcess
from tests.support.redis import Redis

ROOT = Path(__file__).resolve().parents[2]
PAGE_TIMEOUT_S = 20.0


class WholePanel:
    """`manage.py run` with its three processes, which are restarted when they are killed.

    `rows` is a module that reads `given` as JSON, creates the rows, and prints a token and a session cookie of an
    administrator, and what else a run needs (`made`). `database_url` names a PostgreSQL that others start and stop,
    `code` the folder of another version of the panel, `copy_of` the data folder that its own PostgreSQL begins with.
    """

    def __init__(
        self,
        folder: Path,
        rows: str,
        given: object,
        database_url: str = "",
        page_timeout_s: float = PAGE_TIMEOUT_S,
        code: Path = ROOT,
        copy_of: Path | None = None,
    ) -> None:
        self.page_timeout_s, self.code = page_timeout_s, code
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        self.redis = Redis(folder / "redis").start()
        self.postgres = None if database_url else Postgres(folder / "postgres", copy_of=copy_of).start()
        database_url = self.postgres.url if self.postgres else database_url
        self.port = free_port()
        own = {"PADDOCK_HOME": str(folder / "home"), "PADDOCK_LOCAL_HOST": "0"}
        urls = {"PADDOCK_DATABASE_URL": database_url, "PADDOCK_REDIS_URL": self.redis.url}
        self.env = os.environ | own | urls | {"PADDOCK_LOG_LEVEL": "WARNING", "PADDOCK_STATIC_MANIFEST": "0"}
        self.run(["manage.py", "prepare"])
        self.made: dict[str, Any] = json.loads(self.run(["-m", rows], json.dumps(given)))
        self.token, self.cookie = self.made["token"], self.made["cookie"]
        argv = [sys.executable, str(code / "manage.py"), "run", "--port", str(self.port)]
        self.log = folder / "panel.log"
        self.process = ServerProcess(argv, self.log, env=self.env, cwd=code)

    def run(self, arguments: list[str], text: str = "") -> str:
        """Output of a Python program with the panel's settings."""
        argv = [sys.executable, *arguments]
        done = subprocess.run(
            argv, cwd=self.code, env=self.env, input=text, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self) -> None:
        self.process.start()
        self.process.wait_for_port(self.port, timeout_s=120)

    def stop(self) -> None:
        self.process.stop(timeout_s=30)
        self.redis.stop()
        if self.postgres:
            self.postgres.stop()

    def pids(self) -> list[int]:
        """Processes of the web, worker and scheduler, in the order of their start."""
        assert self.process.process
        parent = self.process.process.pid
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]

    def kill_one(self, number: int) -> None:
        """End one of the panel's processes: web, worker or scheduler, in the order of their start."""
        if pids := self.pids():
            os.kill(pids[number % len(pids)], signal.SIGKILL)

    def page(self, path: str) -> str | None:
        """A page's HTML; None if the panel did not respond with it."""
        status, text = self._request("GET", path, {"Cookie": self.cookie})
        return text if status == 200 else None

    def call(self, method: str, path: str, values: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Status and JSON of a request to the API; 0 and None without a response."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        status, text = self._request(method, f"/api/v1/{path}", headers, json.dumps(values) if values else None)
        try:
            return status, json.loads(text) if text else None
        except ValueError:
            return status, None

    def deploy(self, site: str) -> str:
        """Plan and confirm the site's draft; return the deployment, "" if the panel did not accept it."""
        status, body = self.call("POST", "deployments/", {"sites": [site], "confirm": True})
        return str(body["deployments"][0]["uuid"]) if status == 202 else ""

    def _request(self, method: str, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("localhost", self.port, timeout=self.page_timeout_s)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()
