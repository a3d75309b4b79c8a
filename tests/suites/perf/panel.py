"""The other end of controller.py: a panel with these hosts registered, to be told to push."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tests.suites.perf.fleet import FleetHost
from tests.support.http_client import ask

DOMAIN = "panel.example"


class Panel:
    def __init__(self, process: subprocess.Popen[str], hosts: list[FleetHost]) -> None:
        self._process = process
        self._hosts = hosts
        self._ask({"op": "add", "hosts": [_row(host) for host in hosts]})

    def push(self, mark: str, *, count: int, cold: bool = False) -> dict[str, float]:
        """What controller.py measured; every host was asked afterwards whether it answers with `mark`."""
        measured = self._ask({"op": "push", "mark": mark, "count": count, "cold": cold})
        self._verify(mark, count)
        return cast(dict[str, float], measured)

    def rollout(self, mark: str, *, soak_s: int) -> dict[str, Any]:
        """Result of a rollout whose second wave fails, as controller.py returns it."""
        return cast(dict[str, Any], self._ask({"op": "rollout", "mark": mark, "soak_s": soak_s}))

    def waves(self, mark: str, *, count: int, aside: bool = False) -> dict[str, Any]:
        """What controller.py measured of a rollout; every host was asked afterwards whether it answers with `mark`."""
        measured = self._ask({"op": "waves", "mark": mark, "count": count, "soak_s": 0, "aside": aside})
        self._verify(mark, count)
        return cast(dict[str, Any], measured)

    def _verify(self, mark: str, count: int) -> None:
        for host in self._hosts[:count]:
            answer = ask(host.http_port, "/version", host=DOMAIN).text
            assert answer == mark, f"{host.name} answers {answer!r} instead of {mark!r}"

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the panel's process ended; what it said stands above"
        return json.loads(line)


def _row(host: FleetHost) -> dict[str, Any]:
    return {
        "name": host.name,
        "port": host.sshd.port,
        "username": host.sshd.username,
        "private_key": host.sshd.private_key,
        "host_key": host.sshd.host_key,
        "paths": host.nginx.paths,
        "site_root": str(host.nginx.root / "www"),
        "http_port": host.http_port,
    }


@contextmanager
def panel(folder: Path, hosts: list[FleetHost]) -> Iterator[Panel]:
    """A panel on the database that PADDOCK_DATABASE_URL names, or on SQLite in `folder`."""
    argv = [sys.executable, "-m", "tests.suites.perf.controller", str(folder)]
    environment = os.environ | {"MALLOC_ARENA_MAX": "2"}  # as paddock-worker.service has it
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield Panel(process, hosts)
    finally:
        assert process.stdin
        process.stdin.close()
        process.wait(timeout=30)


def job_alone(host: FleetHost, mark: str, text: str) -> None:
    """What no tool can do without: write the file, test, reload, ask until the new configuration answers."""
    host.site_file.write_text(text)
    done = host.nginx.test()
    assert done.returncode == 0, done.stderr
    done = host.nginx.run("-s", "reload")  # not its reload(), which waits until the old workers are gone
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 5
    while ask(host.http_port, "/version", host="site.example").text != mark:
        assert time.monotonic() < deadline, f"{host.name} does not answer {mark}"
        time.sleep(0.002)
