"""Lines that visitors cause in an error log neither decide a deployment nor reach an operator."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from agents.host.engines import apache, native, nginx, openlitespeed
from tests.agents.process import AgentProcess
from tests.agents.sites import NGINX_SITE, Sites
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

# A visitor's site: its missing files are told in the log, with the path that was asked for.
FILES = "server {{ listen 127.0.0.1:{port}; server_name files.test; root {root}/www; }}\n"
FORGED = "2026/11/23 08:35:13 [emerg] {pid}#{pid}: forged by a visitor, to be read by nobody"


@pytest.fixture(params=[NginxInstance, GallopInstance])
def sites(request: pytest.FixtureRequest, server_root: Path) -> Iterator[Sites]:
    made = Sites(request.param(server_root))
    made.put("files.conf", FILES.format(port=made.port, root=server_root))
    with made.server:
        assert eventually(lambda: made.body("shop") == "old")
        yield made


def visit(sites: Sites) -> None:
    """A request for a file whose name has a line of the server's log in it."""
    path = quote(f"/x\n{FORGED.format(pid=sites.server.pid)}\n", safe="/")
    with socket.create_connection(("127.0.0.1", sites.port), timeout=10) as stream:
        stream.sendall(f"GET {path} HTTP/1.0\r\nHost: files.test\r\n\r\n".encode())
        while stream.recv(65536):
            pass


def test_apply_succeeds_when_visitors_write_errors_into_log(agent: AgentProcess, sites: Sites) -> None:
    """A reload of a thousand sites takes long enough for the agent to read the log meanwhile."""
    many = "".join(NGINX_SITE.format(port=sites.port, name=f"n{n}.test", code=203, body="x") for n in range(6000))
    sites.put("many.conf", many)
    stopped = threading.Event()

    def visits() -> None:
        while not stopped.is_set():
            visit(sites)

    visitors = threading.Thread(target=visits)
    visitors.start()
    try:
        for number in range(4):
            change = sites.shop(sites.text("shop", f"new{number}"))
            result = agent.call("apply", sites.request(change))
            assert (result["outcome"], result["error"]) == ("applied", "")
    finally:
        stopped.set()
        visitors.join()


def test_failed_reload_message_contains_only_server_lines(agent: AgentProcess, sites: Sites) -> None:
    port = free_port()
    stopped = threading.Event()

    def visits() -> None:
        while not stopped.wait(0.002):
            visit(sites)

    visitors = threading.Thread(target=visits)
    visitors.start()
    try:
        with socket.create_server(("127.0.0.1", port)):
            text = sites.text("shop", "new") + FILES.format(port=port, root=sites.server.root)
            result = agent.call("apply", sites.request(sites.shop(text)))
    finally:
        stopped.set()
        visitors.join()
    assert result["outcome"] == "rolled_back"
    assert f"127.0.0.1:{port}" in result["error"]
    assert "GET " not in result["error"], "what visitors of any site asked for"
    assert sites.body("shop") == "old"


@pytest.mark.parametrize(
    ("engine", "line", "is_own"),
    [
        (nginx, "2026/11/23 08:35:13 [emerg] 7#7: bind() to 0.0.0.0:80 failed", True),
        (native, "2026/11/23 08:35:13 [emerg] 7#9: host not found", True),
        (nginx, "2026/11/23 08:35:13 [emerg] 8#8: of another process", False),
        (nginx, "2026/11/23 08:35:13 [emerg] 70#7: of another process", False),
        (nginx, '2026/11/23 08:35:13 [error] 7#7: *1 open() "/x [emerg] 7#7: y" failed', False),
        (nginx, "[emerg] 7#7: without a date", False),
        (nginx, "x [emerg] 7#7: y", False),
        (nginx, "2026/11/23 08:35:13 [emerg]", False),
        (native, '2026/11/23 08:35:13 [error] 7#7: *1 "/srv/[emerg] still could not bind" failed', False),
        (
            apache,
            "[Mon Nov 23 08:35:13.1 2026] [core:emerg] [pid 7:tid 1] AH00020: Configuration Failed, exiting",
            True,
        ),
        (apache, "[Mon Nov 23 08:35:13.1 2026] [core:emerg] [pid 7] AH00020: Configuration Failed, exiting", True),
        (apache, "no listening sockets available, shutting down", True),
        (apache, "[Mon Nov 23 08:35:13.1 2026] [core:emerg] [pid 8:tid 1] AH00020: Configuration Failed", False),
        (apache, "[Mon Nov 23 08:35:13.1 2026] [core:error] [pid 7:tid 1] [client ::1:9] File AH00020: x", False),
        (openlitespeed, "2026-11-23 08:35:13.123456 [ERROR] [7] [T0] Fatal error in configuration, exit!", True),
        (openlitespeed, "2026-11-23 08:35:13.123456 [ERROR] Fatal error in configuration, exit!", True),
        (
            openlitespeed,
            "2026-11-23 08:35:13.123456 [INFO] [7] [1.2.3.4] File not found [/Fatal error in configuration]",
            False,
        ),
        (openlitespeed, "x Fatal error in configuration", False),
    ],
)
def test_log_line_counts_as_failure_only_when_written_by_server(engine: type, line: str, is_own: bool) -> None:
    names = ("engine", "binary", "prefix", "main_config", "config_root", "pid_file", "unit", "control")
    server = engine.Server(dict.fromkeys(names, "/nowhere"))
    assert server.is_failure(line, 7) is is_own
