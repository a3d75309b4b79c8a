"""The agent ends old nginx workers as soon as the new ones run; nginx itself waits 100 ms."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.host import processes
from agents.host.engines import nginx
from agents.host.engines.base import Generation
from agents.protocol import EngineControl, plain
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

WORKERS = 2
LARGE_BYTES = 8_000_000  # more than the buffers of a connection hold
CACHE = "    proxy_cache_path {root}/tmp/cache keys_zone=cache:1m;\n"  # with a manager that is no worker


class Served:
    """An nginx with several workers, each with a listening socket of its own, and what reloads it."""

    def __init__(self, root: Path) -> None:
        self.instance = NginxInstance(root)
        self.port = free_port()
        main = self.instance.main_config.read_text().replace("worker_processes 1;", f"worker_processes {WORKERS};")
        self.instance.main_config.write_text(main.replace("http {\n", "http {\n" + CACHE.format(root=root)))
        paths = {name: value for name, value in self.instance.paths.items() if name != "log_dir"}
        self.server = nginx.Server(plain(EngineControl(engine="nginx", **paths)))

    def say(self, text: str) -> None:
        (self.instance.root / "conf.d" / "site.conf").write_text(
            f"server {{ listen 127.0.0.1:{self.port} reuseport; root {self.instance.root}/www; "
            f"location = /said {{ return 200 {text}; }} }}\n"
        )

    def reload(self) -> Generation:
        before, _ = self.server.reload(self.server.pid())
        self.server.wait_live(before)
        return before

    def workers(self) -> set[int]:
        return {pid for pid in processes.children(self.server.pid()) if nginx._accepts(pid)}

    @property
    def log(self) -> str:
        return (self.instance.root / "log" / "error.log").read_text()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    made.say("first")
    made.instance.start()
    try:
        assert eventually(lambda: len(made.workers()) == WORKERS)
        yield made
    finally:
        made.instance.stop()


def test_old_workers_shut_down_without_replacement(served: Served) -> None:
    served.say("second")
    old, log_size, before = served.workers(), 0, Generation(0)

    def relieves() -> bool:  # not where this process sleeps for the 100 ms itself
        nonlocal old, log_size, before
        old, log_size = served.workers(), len(served.log)
        before = served.reload()
        return before.relieved

    assert eventually(relieves)
    assert {ask(served.port, "/said").text for _ in range(20)} == {"second"}
    assert eventually(lambda: not before.workers & processes.children(before.pid, living=False)), "not waited for"
    log = served.log[log_size:]
    assert set(map(int, re.findall(rf" (\d+)#\d+: signal 3 \(SIGQUIT\) received from {os.getpid()},", log))) == old
    assert len(served.workers()) == WORKERS and not served.workers() & old
    assert len(re.findall(r": start worker process \d+", log)) == WORKERS
    assert not re.search(r"\[(alert|emerg|crit|error)\]", served.log), served.log


def test_consecutive_reloads_shut_down_old_workers(served: Served) -> None:
    """The second reload comes while nginx still waits for the workers of the first."""
    for text in ("second", "third", "fourth"):
        served.say(text)
        served.reload()
        assert {ask(served.port, "/said").text for _ in range(10)} == {text}
    assert eventually(lambda: len(served.workers()) == WORKERS)
    assert not re.search(r"\[(alert|emerg|crit|error)\]", served.log), served.log


def test_old_workers_finish_responses(served: Served) -> None:
    (served.instance.root / "www" / "large").write_bytes(b"x" * LARGE_BYTES)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
        client.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        received = len(client.recv(1))  # it has begun
        served.say("second")
        served.reload()
        assert ask(served.port, "/said").text == "second"
        while part := client.recv(1 << 20):
            received += len(part)
    assert received > LARGE_BYTES


def test_replacement_of_lost_worker_is_not_taken_for_reload(served: Served) -> None:
    """The replacement has the old configuration, so the other workers must stay."""
    before = Generation(served.server.pid())
    lost, *others = served.workers()
    os.kill(lost, signal.SIGKILL)
    assert eventually(lambda: len(served.workers() - before.workers) == 1)
    assert not served.server.relieve(before)
    assert not served.server.is_replaced(before)
    assert set(others) <= served.workers()


def test_old_workers_stay_while_new_workers_are_missing(served: Served) -> None:
    """The old workers keep serving until all new ones have started."""
    main = served.instance.main_config
    main.write_text(main.read_text().replace(f"worker_processes {WORKERS};", "worker_processes 1;"))
    served.say("second")
    assert not served.reload().relieved
    assert {ask(served.port, "/said").text for _ in range(10)} == {"second"}
