"""A running nginx hands its sockets to gallop, and gallop to nginx (USR2), during requests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from tests.support.gallop import GallopInstance
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.process import tool
from tests.support.waiting import eventually


@contextmanager
def _asked_meanwhile(port: int) -> Iterator[tuple[list[str], list[OSError]]]:
    """The `Server` of each answer until the block ends, and the connections that were cut off instead. One that is
    refused fails."""
    over, names, cut = Event(), list[str](), list[OSError]()

    def ask_on() -> None:
        while not over.is_set():
            try:
                names.append(ask(port).headers["server"].partition("/")[0])
            except (ConnectionResetError, BrokenPipeError) as error:
                cut.append(error)

    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(ask_on)
        try:
            assert eventually(lambda: bool(names)), "no request was served before the change"
            yield names, cut
        finally:
            over.set()
        asking.result()


def _hand_over(server: NginxInstance, link: Path, binary: str) -> None:
    """As packages do it: the new binary in the old one's place, USR2, QUIT for the master of before."""
    link.unlink()
    link.symlink_to(binary)
    old = server.pid
    assert old is not None
    os.kill(old, signal.SIGUSR2)
    assert eventually(lambda: server.pid not in (None, old)), (server.root / "log" / "error.log").read_text()
    os.kill(old, signal.SIGQUIT)
    before = server.root / "run" / f"{server.pid_name}.oldbin"
    assert eventually(lambda: not before.exists())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NginxInstance]:
    with_nothing_of_nginx_alone = GallopInstance(tmp_path / "server")
    yield with_nothing_of_nginx_alone
    with_nothing_of_nginx_alone.stop()


def test_nginx_and_gallop_hand_over_sockets_without_losing_requests(server: NginxInstance) -> None:
    nginx, gallop, port = tool("nginx"), server.binary, free_port()
    link = server.root / "link"
    link.symlink_to(nginx)
    server.binary = str(link)
    text = f"server {{ listen 127.0.0.1:{port}; location / {{ return 200 same; }} }}\n"
    (server.root / "conf.d" / "site.conf").write_text(text)
    server.start()
    assert eventually(lambda: ask(port).text == "same")
    with _asked_meanwhile(port) as (names, _cut):
        # nginx closes connections that it has accepted and not read from when it ends; gallop waits for them.
        _hand_over(server, link, gallop)
        assert eventually(lambda: names[-1:] == ["gallop"])
    with _asked_meanwhile(port) as (more, cut):
        _hand_over(server, link, nginx)
        assert eventually(lambda: more[-1:] == ["nginx"])
    assert names[0] == "nginx" and more[0] == "gallop"
    assert not cut, cut
