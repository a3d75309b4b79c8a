"""Load tools as the agent runs them: real tools, a real nginx and the real zipapp."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agents.host import fingerprint
from agents.host.load_tools import LOAD_TOOLS
from tests.agents.process import AgentError, AgentProcess
from tests.support.bundled_programs import load_binary
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually

SETPRIV = shutil.which("setpriv")
SIEGE = (
    "benchmark = true\nconnection = keep-alive\njson_output = true\nlogging = false\nquiet = true\nverbose = false\n"
)


@pytest.fixture
def site(server_root: Path) -> Iterator[tuple[str, NginxInstance]]:
    """host:port of a site that answers for a.example only."""
    nginx = NginxInstance(server_root)
    port = free_port()
    (server_root / "www" / "index.html").write_text("x" * 100)
    (server_root / "conf.d" / "site.conf").write_text(
        f"server {{ listen 127.0.0.1:{port}; return 421; }}\n"
        f"server {{ listen 127.0.0.1:{port}; server_name a.example; root {server_root}/www; access_log off; }}\n"
    )
    with nginx:
        yield f"127.0.0.1:{port}", nginx


def request(target: str, argv: list[str], **more: Any) -> dict[str, Any]:
    return {"argv": argv, "target": target, "allowed": [target], "timeout_s": 20, "trees": {}, **more}


def ab(target: str, *options: str) -> list[str]:
    return ["ab", "-q", "-k", "-c", "2", *options, "-H", "Host: a.example", f"http://{target}/"]


def test_ab_runs_with_samples_and_returns_files(agent: AgentProcess, site: tuple[str, NginxInstance]) -> None:
    target, nginx = site
    argv = ab(target, "-t", "1", "-n", "1000000", "-e", "{workdir}/percentiles.csv")
    trees = {"server": [nginx.paths["pid_file"]]}
    events: list[Any] = []
    more = {"trees": trees, "outputs": ["percentiles.csv"], "idle_s": 0.3}
    result = agent.call("bench", request(target, argv, **more), events)
    assert result["exit_code"] == 0
    assert "Non-2xx" not in result["stdout"]
    assert result["outputs"]["percentiles.csv"].startswith("Percentage served,Time in ms")
    assert [phase[0] for phase in result["phases"]] == ["idle", "load", "idle"]
    assert result["cpu_s"]["server"] > 0
    assert result["cpu_s"]["tool"] > 0
    load_from, load_to = result["phases"][1][1:]
    loaded = [cpu for at, cpu, _ in result["samples"]["server"] if load_from < at <= load_to]
    idle = [cpu for at, cpu, _ in result["samples"]["server"] if at < load_from]
    assert max(loaded, default=0) > max(idle, default=0)
    assert all(rss > 1_000_000 for _, _, rss in result["samples"]["server"])


@pytest.mark.parametrize("tool", ["h2load", "wrk", "siege", "hey"])
def test_every_tool_reaches_named_virtual_host(agent: AgentProcess, site: tuple[str, NginxInstance], tool: str) -> None:
    target, _ = site
    port = target.split(":")[1]
    h2load = ["h2load", "--h1", "-c", "2", "-n", "50", f"--connect-to={target}", "--log-file={workdir}/requests.log"]
    argv = {
        "h2load": [*h2load, "-i", "{workdir}/urls"],
        "wrk": ["wrk", "-c", "2", "-t", "1", "-d", "1s", "-s", "{workdir}/wrk.lua", f"http://a.example:{port}/"],
        "siege": [*("siege", "-R", "{workdir}/siegerc", "-c", "2", "-r", "10"), "-H", "Host: a.example"],
        "hey": [*("hey", "-c", "2", "-n", "50", "-disable-redirects", "-host", "a.example"), f"http://{target}/"],
    }[tool]
    files = {
        "h2load": {"urls": f"http://a.example:{port}/\n"},
        "wrk": {"urls": "/\n/index.html\n"},
        "siege": {"urls": f"http://{target}/\n", "siegerc": SIEGE},
        "hey": {},
    }[tool]
    if tool == "siege":
        argv += ["-f", "{workdir}/urls"]
    result = agent.call("bench", request(target, argv, input_files=files))
    assert result["exit_code"] == 0, result
    expected = {
        "h2load": "50 succeeded",
        "wrk": "status=0 ",
        "siege": '"successful_transactions":	          20',
        "hey": "[200]	50 responses",
    }
    assert expected[tool] in result["stdout"]
    if tool == "h2load":
        assert result["latency"]["statuses"] == {"200": 50}
        assert sum(count for _, count in result["latency"]["counts"]) == 50


def test_tool_is_ended_at_timeout(agent: AgentProcess, site: tuple[str, NginxInstance]) -> None:
    target, _ = site
    begin = time.monotonic()
    result = agent.call("bench", {**request(target, ab(target, "-t", "120", "-n", "9000000")), "timeout_s": 0.5})
    assert result["stopped"] == "timeout"
    assert time.monotonic() - begin < 100, "ab itself would have gone on for 120 s"


def test_cancel_ends_tool_without_leftovers(agent: AgentProcess, site: tuple[str, NginxInstance]) -> None:
    target, _ = site
    ident = agent.send("bench", request(target, ab(target, "-t", "30", "-n", "9000000")))
    assert agent.receive()["type"] == "event"
    (tool,) = children_of(agent.process.pid)
    workdir = Path(f"/proc/{tool}/cwd").resolve()
    agent.send("cancel", {"id": ident})
    results = [message for message in (agent.receive(), agent.receive()) if message["id"] == ident]
    while not results or results[0]["type"] != "result":
        results = [agent.receive()]
    assert results[0]["data"]["stopped"] == "cancelled"
    assert not children_of(agent.process.pid)
    assert not workdir.exists()


def test_tools_end_with_killed_agent(agent_file: Path, tmp_path: Path, site: tuple[str, NginxInstance]) -> None:
    target, _ = site
    process = AgentProcess(agent_file, tmp_path / "state").__enter__()
    process.send("bench", request(target, ab(target, "-t", "120", "-n", "9000000")))
    assert eventually(lambda: bool(children_of(process.process.pid)))
    (tool,) = children_of(process.process.pid)
    workdir = Path(f"/proc/{tool}/cwd").resolve()
    os.kill(process.process.pid, signal.SIGKILL)
    process.__exit__()
    assert eventually(lambda: not alive(tool))
    for file in workdir.iterdir():  # what a killed agent cannot remove itself
        file.unlink()
    workdir.rmdir()


def test_tool_does_not_run_if_agent_is_killed_while_it_starts(
    agent_file: Path, tmp_path: Path, site: tuple[str, NginxInstance]
) -> None:
    target, _ = site
    started, slow = tmp_path / "started", tmp_path / "bin" / "setpriv"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\necho $$ >{started}.new; mv {started}.new {started}\nsleep 1\nexec {SETPRIV} "$@"\n')
    slow.chmod(0o755)
    process = AgentProcess(agent_file, tmp_path / "state")
    process.env["PATH"] = f"{slow.parent}:{process.env['PATH']}"
    process.__enter__()
    process.send("bench", request(target, ab(target, "-t", "120", "-n", "9000000")))
    assert eventually(started.exists)
    tool = int(started.read_text())
    workdir = Path(f"/proc/{tool}/cwd").resolve()
    os.kill(process.process.pid, signal.SIGKILL)
    process.__exit__()
    assert eventually(lambda: not alive(tool), timeout_s=20.0)
    shutil.rmtree(workdir)


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in path.read_text().split()]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["curl", "http://{target}/"], "not a load tool"),
        (["/usr/bin/ab", "http://{target}/"], "not a load tool"),
        (["ab", "http://{target}.nip.example/"], "is not a URL"),
        (["ab", "http://127.0.0.1:65001/"], "is not at"),
        (["ab", "http://192.0.2.1:{port}/"], "resolves to"),
        (["ab", "http://user@{target}/"], "not a plain http"),
        (["ab", "-X", "192.0.2.1:80", "http://{target}/"], "-X is not allowed"),
        (["ab", "-e", "{{workdir}}/../x", "http://{target}/"], "leaves the folder"),
        (["ab", "-q"], "no URL"),
        (["h2load", "http://{target}/"], "--connect-to"),
        (["h2load", "--connect-to={target}", "--connect-to=192.0.2.1:80", "http://{target}/"], "--connect-to"),
        (["h2load", "--connect-to={target}", "-B", "http://192.0.2.1", "http://{target}/"], "-B is not allowed"),
        (["wrk", "http://{target}/"], "own script"),
        (["wrk", "-s", "/etc/passwd", "http://{target}/"], "own script"),
        (["siege", "http://{target}/"], "-R"),
        (["hey", "http://{target}/"], "-disable-redirects"),
        (["hey", "-disable-redirects", "http://192.0.2.1:{port}/"], "resolves to"),
        (["hey", "-disable-redirects", "-x", "192.0.2.1:80", "http://{target}/"], "-x is not allowed"),
        (["hey", "-disable-redirects", "--x=192.0.2.1:80", "http://{target}/"], "--x is not allowed"),
        (["hey", "-disable-redirects", "-x=http://192.0.2.1:80", "http://{target}/"], "-x=http"),
        (["hey", "-disable-redirects", "-D", "/etc/passwd", "http://{target}/"], "-D is not allowed"),
        # Joined to its value, an option has another form, which a list of forbidden options does not see.
        (["ab", "-X192.0.2.1:80", "http://{target}/"], "-X192.0.2.1:80 is not allowed"),
        (["ab", "-e", "/root/x", "http://{target}/"], "leaves the folder"),
        (["ab", "http://{target}/", "http://{target}/"], "http://127.0.0.1:65000/ is not allowed"),
        (["ab", "-n"], "no URL"),
        (["h2load", "--connect-to={target}", "-i", "/etc/passwd", "http://{target}/"], "leaves the folder"),
        (["h2load", "--connect-to={target}", "--h1=x", "http://{target}/"], "--h1 is not allowed"),
    ],
)
def test_load_is_rejected_for_other_targets(agent: AgentProcess, argv: list[str], words: str) -> None:
    parts = [part.format(target="127.0.0.1:65000", port="65000") for part in argv]
    with pytest.raises(AgentError, match=words) as refused:
        agent.call("bench", request("127.0.0.1:65000", parts))
    assert refused.value.code == "refused"


@pytest.mark.parametrize(
    ("target", "allowed", "words"),
    [
        ("127.0.0.1:80", [], "not a listener of a site that Paddock manages"),
        ("127.0.0.1:80", ["127.0.0.1:81"], "not a listener of a site that Paddock manages"),
        ("192.0.2.1:80", ["192.0.2.1:80"], "not an address of this host"),
        ("169.254.169.254:80", ["169.254.169.254:80"], "the metadata service of most clouds"),
        ("localhost:80", ["localhost:80"], "not an address and a port"),
        ("0.0.0.0:80", ["0.0.0.0:80"], "no address a site"),
        ("127.0.0.1:99999", ["127.0.0.1:99999"], "port that is not from 1 to 65535"),
    ],
)
def test_load_is_rejected_for_addresses_of_other_hosts(
    agent: AgentProcess, target: str, allowed: list[str], words: str
) -> None:
    with pytest.raises(AgentError, match=words):
        agent.call("bench", {**request(target, ["ab", f"http://{target}/"]), "allowed": allowed})


@pytest.mark.parametrize("setting", ["proxy-host = 192.0.2.1", "parser = true", "follow-location = true", "url = x"])
def test_siege_settings_with_other_targets_are_rejected(agent: AgentProcess, setting: str) -> None:
    files = {"siegerc": setting + "\n", "urls": "http://127.0.0.1:65000/\n"}
    argv = ["siege", "-R", "{workdir}/siegerc", "-f", "{workdir}/urls"]
    with pytest.raises(AgentError, match=setting.split()[0]):
        agent.call("bench", request("127.0.0.1:65000", argv, input_files=files))


def test_url_file_with_other_targets_is_rejected(agent: AgentProcess) -> None:
    files = {"siegerc": SIEGE, "urls": "http://127.0.0.1:65000/\nhttp://192.0.2.1:65000/\n"}
    argv = ["siege", "-R", "{workdir}/siegerc", "-f", "{workdir}/urls"]
    with pytest.raises(AgentError, match="resolves to"):
        agent.call("bench", request("127.0.0.1:65000", argv, input_files=files))


def test_siege_over_tls_requires_name_that_resolves_to_site(agent: AgentProcess) -> None:
    files = {"siegerc": SIEGE, "urls": "https://shop.invalid:65000/\n"}
    argv = ["siege", "-R", "{workdir}/siegerc", "-f", "{workdir}/urls"]
    with pytest.raises(AgentError, match=r"add '127\.0\.0\.1 shop\.invalid' to /etc/hosts"):
        agent.call("bench", request("127.0.0.1:65000", argv, input_files=files))


def test_responses_operation_describes_site_content(agent: AgentProcess, site: tuple[str, NginxInstance]) -> None:
    port = int(site[0].split(":")[1])
    asked = {"address": "127.0.0.1", "port": port, "path": "/", "tls": False, "gzip": False}
    named = {**asked, "host": "a.example", "host_header": f"a.example:{port}"}
    other = {**asked, "host": "b.example", "host_header": f"b.example:{port}"}
    first, second = agent.call("answers", {"requests": [named, other]})["answers"]
    assert (first["status"], first["bytes"], first["type"], first["encoding"]) == (200, 100, "text/html", "")
    assert second["status"] == 421


class Compressing(BaseHTTPRequestHandler):
    """Answers /NAME with the body of that name below, as gzip."""

    whole = gzip.compress(b"the same page " * 50_000, compresslevel=9)
    bodies = {
        "best": whole,
        "fast": gzip.compress(b"the same page " * 50_000, compresslevel=1),
        "members": gzip.compress(b"the same page " * 20_000) + gzip.compress(b"the same page " * 30_000),
        "cut": whole[:-20],
    }

    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in (("Content-Type", "text/plain"), ("Content-Encoding", "gzip"), ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.bodies[self.path[1:]])

    def log_message(self, *_: object) -> None:
        pass


def test_response_digests_ignore_compression(agent: AgentProcess) -> None:
    """Web servers compress differently, so digests are of the decoded page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Compressing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        asked = {"address": "127.0.0.1", "port": server.server_port, "host": "a", "host_header": "a", "tls": False}
        requests = [{**asked, "path": f"/{name}", "gzip": True} for name in Compressing.bodies]
        *alike, cut = agent.call("answers", {"requests": requests})["answers"]
        server.shutdown()
        thread.join()
    page = b"the same page " * 50_000
    for answer in alike:
        assert (answer["sha256"], answer["bytes"]) == (hashlib.sha256(page).hexdigest(), len(page))
        assert (answer["encoding"], answer["start"][:13]) == ("gzip", "the same page")
    assert cut == {"error": "the compressed response cannot be read (the response ends in the middle)"}


def test_responses_operation_rejects_other_hosts(agent: AgentProcess) -> None:
    asked = {"address": "192.0.2.1", "port": 80, "path": "/", "tls": False, "gzip": False}
    with pytest.raises(AgentError, match="not an address of this host"):
        agent.call("answers", {"requests": [{**asked, "host": "a", "host_header": "a"}]})


def test_fingerprint_names_host_and_tools(agent: AgentProcess) -> None:
    found = agent.call("fingerprint")
    assert found["kernel"] == os.uname().release
    assert found["cpus"] == os.cpu_count()
    assert found["tools"]["ab"]["version"].startswith("2.")
    assert found["tools"]["siege"]["version"].startswith("4.")
    assert set(found["tools"]) == set(LOAD_TOOLS)
    query = ["dpkg-query", "-W", "-f", "${Version}", "hey"]
    installed = subprocess.run(query, check=True, capture_output=True, text=True)
    assert found["tools"]["hey"]["version"] == installed.stdout, "hey does not print its version"
    assert all(tool["version"] for tool in found["tools"].values())


def test_fingerprint_has_no_version_of_tool_that_no_package_installed(tmp_path: Path) -> None:
    other = tmp_path / "hey"
    other.write_text("#!/bin/sh\n")
    assert fingerprint.version(str(other), "hey") == ""


def test_samples_include_child_processes(agent: AgentProcess) -> None:
    """The parent only waits, so all CPU time is its child's. The test waits for the child's first clock tick."""
    busy = "import os\nif os.fork() == 0:\n while True: pass\nos.wait()"
    with subprocess.Popen([sys.executable, "-c", busy], start_new_session=True) as process:
        try:
            seen: list[dict[str, Any]] = []

            def counted() -> bool:
                seen.append(agent.call("sample", {"pids": [process.pid], "seconds": 0.5, "hz": 10}))
                return seen[-1]["cpu_s"]["pids"] > 0 and len(children_of(process.pid)) == 1

            assert eventually(counted, timeout_s=60), seen
            assert max(cpu for _, cpu, _ in seen[-1]["samples"]["pids"]) > 0
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_siege_starts_at_full_second(agent: AgentProcess, site: tuple[str, NginxInstance]) -> None:
    """Started in the middle of a second, `-t 1S` would last less than a second."""
    target, _ = site
    argv = ["siege", "-R", "{workdir}/siegerc", "-b", "-c", "2", "-t", "1S", "-H", "Host: a.example"]
    files = {"urls": f"http://{target}/\n", "siegerc": SIEGE}
    for _ in range(3):
        asked = request(target, [*argv, "-f", "{workdir}/urls"], input_files=files)
        result = agent.call("bench", asked)
        assert result["started_at"] % 1.0 < 0.5, result["started_at"]


def test_gallop_load_runs_only_with_announced_digest_and_allowed_methods(
    agent: AgentProcess, site: tuple[str, NginxInstance]
) -> None:
    target, _nginx = site
    digest = hashlib.sha256(load_binary().read_bytes()).hexdigest()
    argv = ["gallop-load", "--h1", "-n", "20", "--json", "--connect-to", target, "-i", "{workdir}/urls"]
    brought = {"source": str(load_binary()), "sha256": digest}
    urls = {"urls": "http://a.example:80/\nHEAD http://a.example:80/\n"}
    result = agent.call("bench", request(target, argv, program=brought, input_files=urls))
    assert json.loads(result["stdout"])["statuses"]["2xx"] == 20, result["stderr"]
    with pytest.raises(AgentError, match="differs from the announced file"):
        agent.call("bench", request(target, argv, program={**brought, "sha256": "0" * 64}, input_files=urls))
    with pytest.raises(AgentError, match="is not a load tool"):
        agent.call("bench", request(target, argv, input_files=urls))
    with pytest.raises(AgentError, match="must be told --connect-to"):
        elsewhere = [part.replace(target, "192.0.2.1:80") for part in argv]
        agent.call("bench", request(target, elsewhere, program=brought, input_files=urls))
    with pytest.raises(AgentError, match="no method that a load may have"):
        hostile = {"urls": "PUT http://a.example/\n"}
        agent.call("bench", request(target, argv, program=brought, input_files=hostile))
