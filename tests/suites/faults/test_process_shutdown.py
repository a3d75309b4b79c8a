"""The panel's processes end within ten seconds of SIGTERM, whatever they wait for."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
STOP_WITHIN_S = 10.0

# A host that accepts connections and never says anything, a job on it, and a session that may watch a deployment.
SCENE = """
import json
from django.conf import settings
from django.test import Client
from django.urls import reverse
from panel.accounts.models import Role, User
from panel.deployments.models import Deployment
from panel.hosts.models import Host, HostJob
host = Host.objects.create(name="web-1", address="127.0.0.1", port={port}, username="root")
HostJob.objects.create(host=host, kind="check")
deployment = Deployment.objects.create(host=host)
client = Client()
client.force_login(
    User.objects.create(username="ada", role=Role.ADMIN), backend="django.contrib.auth.backends.ModelBackend"
)
events = reverse("job-events", args=[deployment.uuid])
name = settings.SESSION_COOKIE_NAME
print(json.dumps({{"cookie": f"{{name}}={{client.cookies[name].value}}", "events": events}}))
"""


class Panel:
    """A data folder with a silent host in it."""

    def __init__(self, home: Path, silent: socket.socket, database: Path) -> None:
        self.silent = silent
        home.mkdir()
        shutil.copyfile(database, home / "paddock.sqlite3")
        names = ("PADDOCK_DATABASE_URL", "PADDOCK_REDIS_URL")
        env = {name: value for name, value in os.environ.items() if name not in names}
        self.env = env | {"PADDOCK_HOME": str(home), "PADDOCK_LOCAL_HOST": "0"}
        self._manage("prepare")
        script = SCENE.format(port=silent.getsockname()[1])
        self.scene = json.loads(self._manage("shell", "--no-imports", "-c", script).strip().splitlines()[-1])

    def _manage(self, *arguments: str) -> str:
        argv = [sys.executable, str(ROOT / "manage.py"), *arguments]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        child = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=self.env)
        try:
            yield child
        finally:
            child.kill()
            child.wait()


@pytest.fixture
def panel(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Panel]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield Panel(tmp_path / "home", silent, migrated_sqlite)


def seconds_to_end(child: subprocess.Popen[bytes]) -> float:
    began = time.monotonic()
    child.send_signal(signal.SIGTERM)
    child.wait(timeout=60)
    return time.monotonic() - began


def test_worker_ends_in_time_while_host_hangs(panel: Panel) -> None:
    with panel.process("-m", "celery", "-A", "panel", "worker", "--loglevel", "WARNING") as worker:
        panel.silent.settimeout(60)
        connection, _ = panel.silent.accept()  # the sweep at the worker's start found the job
        with connection:
            assert seconds_to_end(worker) < STOP_WITHIN_S


def test_web_process_ends_in_time_while_event_stream_is_open(panel: Panel) -> None:
    port = free_port()
    with panel.process("manage.py", "web", "--port", str(port)) as web:
        assert eventually(lambda: _connects(port))
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
            lines = (
                f"GET {panel.scene['events']} HTTP/1.1",
                f"Host: localhost:{port}",
                f"Cookie: {panel.scene['cookie']}",
            )
            stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            received = b""
            while b"event: live" not in received:
                part = stream.recv(65536)
                assert part, received
                received += part
            assert seconds_to_end(web) < STOP_WITHIN_S


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
