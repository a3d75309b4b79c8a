"""Test beds and their links: real servers, real namespaces, the real zipapp, and no leftovers."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.host import link, netem, processes, testbed_files, testbed_servers
from agents.host.errors import Refusal
from agents.protocol import TestbedRequest, TestbedServer, plain
from panel.benchmarks.testbeds import main_files
from tests.agents.process import AgentError, AgentProcess
from tests.support.bundled_programs import netem_binary
from tests.support.ports import free_port
from tests.support.process import tool
from tests.support.waiting import eventually

CONFIG = """daemon off;
user PADDOCK-USER PADDOCK-GROUP;
pid /PADDOCK-TESTBED/web/server.pid;
error_log /PADDOCK-TESTBED/web/error.log;
events { worker_connections 64; }
http { access_log off; server { listen %s; root /PADDOCK-TESTBED/www; } }
"""


@pytest.fixture
def temporary(server_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the agent makes its stands: a place of this test's own, which the servers' accounts can reach."""
    folder = server_root / "temporary"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def agents(agent_file: Path, tmp_path: Path, temporary: Path) -> Iterator[AgentProcess]:
    agent = AgentProcess(agent_file, tmp_path / "state")
    agent.env["TMPDIR"] = str(temporary)
    with agent:
        yield agent


def program() -> dict[str, dict[str, str]]:
    path = netem_binary()
    return {"paddock-netem": {"source": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}


def testbed(port: int, *, address: str = "127.0.0.1", **more: Any) -> dict[str, Any]:
    listen = f"{address}:{port}"
    request = TestbedRequest(
        id="testbed-of-a-test",
        files=[
            {"path": "web/server.conf", "text": more.pop("config", CONFIG) % listen},
            {"path": "www/page.html", "text": "a page"},
        ],
        servers=[TestbedServer("web", "nginx", listen, tool("nginx"))],
        listeners=[listen],
        folders=["web"],
        **more,
    )
    data: dict[str, Any] = plain(request)
    return data


def up(agent: AgentProcess, request: dict[str, Any]) -> dict[str, Any]:
    """Asks for the test bed; the event that says it is up."""
    ident = agent.send("testbed", request)
    while True:
        message = agent.receive()
        assert message["id"] == ident, message
        assert message["type"] == "event", message
        if message["data"]["state"] == "up":
            found: dict[str, Any] = message["data"]
            return found


def asked(listener: str, path: str = "/page.html") -> dict[str, Any]:
    address, port = listener.split(":")
    question = {"address": address, "port": int(port), "host": "a.example", "host_header": "a.example"}
    return {"requests": [{**question, "path": path, "tls": False, "gzip": False}], "testbed": "testbed-of-a-test"}


def call(agent: AgentProcess, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """A request beside the test bed's own, which goes on."""
    ident = agent.send(op, args)
    while True:
        message = agent.receive()
        if message["id"] == ident and message["type"] != "event":
            if message["type"] == "error":
                raise AgentError(message["data"])
            data: dict[str, Any] = message["data"]
            return data


def ended(agent: AgentProcess) -> dict[str, Any]:
    """Ends the test bed; what its own request then answers."""
    answers = [agent.send("testbed", {"action": "end", "id": "testbed-of-a-test"})]
    while True:
        message = agent.receive()
        if message["id"] not in answers and message["type"] == "result":
            data: dict[str, Any] = message["data"]
            return data


def ab(target: str) -> dict[str, Any]:
    argv = ["ab", "-q", "-k", "-c", "2", "-n", "50", f"http://{target}/page.html"]
    return {"argv": argv, "target": target, "allowed": [target], "timeout_s": 60, "trees": {}}


def test_testbed_responds_while_held_and_leaves_nothing(agents: AgentProcess, temporary: Path) -> None:
    port = free_port()
    told = up(agents, testbed(port))
    answer = call(agents, "answers", asked(f"127.0.0.1:{port}"))["answers"][0]
    assert (answer["status"], answer["bytes"]) == (200, 6)
    assert Path(told["folder"]).is_dir()
    pid = told["servers"]["web"]["pid"]
    assert ended(agents)["left"] == []
    assert not Path(told["folder"]).exists()
    assert not Path(f"/proc/{pid}").exists()
    assert list(temporary.iterdir()) == []


def test_testbed_servers_are_not_detected_as_web_servers(
    agents: AgentProcess, agent_file: Path, tmp_path: Path
) -> None:
    folder = up(agents, testbed(free_port()))["folder"]
    with AgentProcess(agent_file, tmp_path / "of-the-check") as other:
        found = [item["paths"]["main_config"] for item in other.call("facts")["engines"]]
    assert found
    assert not [path for path in found if path.startswith(folder)]
    assert ended(agents)["left"] == []


def test_load_uses_shaped_link_only(agents: AgentProcess) -> None:
    listener = f"{link.FAR}:8080"
    network = {"bandwidth_kbit": 50_000, "rtt_us": 4_000, "queue_packets": 7}
    told = up(agents, testbed(8080, address=link.FAR, network=network, programs=program()))
    measured = told["network"]
    assert measured["rtt_us"]["min"] >= 4_000, "the delay is never shorter than asked for"
    assert measured["burst"] == [8, 8], "what fills the queue and the wire passes whole"
    assert 0 < measured["rate_kbit"]["forward"] <= 51_000
    load = ab(listener)
    result = call(agents, "bench", {**load, "testbed": "testbed-of-a-test"})
    assert (result["exit_code"], "Complete requests:      50" in result["stdout"]) == (0, True), result
    with pytest.raises(AgentError, match="not a listener of the test bed"):
        call(agents, "bench", {**ab(f"{link.FAR}:8081"), "testbed": "testbed-of-a-test"})
    with pytest.raises(AgentError, match="not an address of this host"):
        call(agents, "bench", load)
    # The load generator that comes with a test bed is a tool of test beds only.
    bundled = ["gallop-load", "-n", "1", "--connect-to", listener, f"https://{listener}/"]
    with pytest.raises(AgentError, match="is not a load tool"):
        call(agents, "bench", {**load, "argv": bundled})
    for elsewhere in (
        ["--connect-to", "192.0.2.1:443"],
        ["--connect-to", listener, "--connect-to", "192.0.2.1:443"],
        ["--connect-to", listener, "--connect-to=192.0.2.1:443"],
    ):
        argv = ["gallop-load", "-n", "1", *elsewhere, f"https://{listener}/"]
        with pytest.raises(AgentError, match="must be told --connect-to"):
            call(agents, "bench", {**load, "argv": argv, "testbed": "testbed-of-a-test"})
    assert ended(agents)["left"] == []


def kernels_answer() -> str:
    """What the kernel says to a netem of its own, "" when it has it."""
    argv = [tool("unshare"), "--net", "--", tool("tc"), "qdisc", "add", "dev", "lo", "root", "netem", "limit", "1"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False).stderr.strip()


@pytest.mark.parametrize("wanted", ["", link.BY_KERNEL, link.BY_EMULATOR])
def test_link_uses_emulator_with_kernel_message_when_tc_fails(agents: AgentProcess, wanted: str) -> None:
    refused = kernels_answer()
    assert agents.call("facts")["netem"]["can"] is (refused == "")
    network = {"bandwidth_kbit": 50_000, "rtt_us": 4_000, "jitter_us": 100, "queue_packets": 7}
    request = testbed(8080, address=link.FAR, network=network, programs=program(), link=wanted)
    if refused and wanted == link.BY_KERNEL:
        with pytest.raises(AgentError, match=re.escape(refused)):
            agents.call("testbed", request)
        return
    measured = up(agents, request)["network"]
    by_kernel = not refused and wanted != link.BY_EMULATOR
    assert measured["by"] == (link.BY_KERNEL if by_kernel else link.BY_EMULATOR)
    assert (refused in measured["why"]) if refused and not wanted else (measured["why"] == "")
    assert measured["rtt_us"]["min"] >= 3_800
    assert measured["burst"] == [8, 8]
    result = call(agents, "bench", {**ab(f"{link.FAR}:8080"), "testbed": "testbed-of-a-test"})
    assert "Complete requests:      50" in result["stdout"]
    assert ended(agents)["left"] == []


def test_unknown_link_shaper_is_rejected(agents: AgentProcess) -> None:
    request = testbed(8080, address=link.FAR, network={"rtt_us": 1}, programs=program(), link="ipfw")
    with pytest.raises(AgentError, match="not by 'ipfw'"):
        agents.call("testbed", request)


def test_link_direction_is_bottleneck_queue_then_delay() -> None:
    whole = {"bandwidth_kbit": 5000, "rtt_us": 20_000, "jitter_us": 500, "loss_ppm": 12_345, "queue_packets": 7}
    assert netem.qdiscs("pdklink3", whole) == [
        # One packet is sent while seven wait; lengths are those of IP packets.
        "qdisc add dev pdklink3 root handle 1: netem limit 8 loss random 1.2345% rate 5000kbit -14",
        # Jitter without a rate would let packets overtake each other.
        "qdisc add dev pdklink3 parent 1:1 handle 2: netem limit 1000000 delay 10000.0us 500us rate 100gbit",
    ]
    assert netem.qdiscs("x", {"bandwidth_kbit": 1000, "rtt_us": 0, "loss_ppm": 5}) == [
        "qdisc add dev x root handle 1: netem limit 1001 loss random 0.0005% rate 1000kbit -14"
    ]
    assert netem.qdiscs("x", {"rtt_us": 3}) == [
        "qdisc add dev x root handle 1: netem limit 1000000",
        "qdisc add dev x parent 1:1 handle 2: netem limit 1000000 delay 1.5us",
    ]


def test_link_splits_packets_before_queue_and_carries_no_arp() -> None:
    assert netem.end(0, "10.77.0.1", 2, "10.77.0.5", "10.77.0.2") == [
        "link set dev lo up",
        "link set dev pdklink0 gso_max_segs 1",
        "address add 10.77.0.1 peer 10.77.0.5/32 dev pdklink0",
        "link set dev pdklink0 up",
        "neighbour replace 10.77.0.5 lladdr 02:70:64:6b:00:02 dev pdklink0 nud permanent",
        "route add 10.77.0.2 via 10.77.0.5 dev pdklink0 src 10.77.0.1",
    ]
    assert netem.middle(3, "10.77.0.6", 1, "10.77.0.2") == [
        "link set dev pdklink3 gso_max_segs 1",
        "address add 10.77.0.6 peer 10.77.0.2/32 dev pdklink3",
        "link set dev pdklink3 up",
        "neighbour replace 10.77.0.2 lladdr 02:70:64:6b:00:01 dev pdklink3 nud permanent",
    ]


def test_killed_agent_leaves_no_process_and_next_agent_cleans_up(
    agent_file: Path, tmp_path: Path, temporary: Path
) -> None:
    killed = AgentProcess(agent_file, tmp_path / "state")
    killed.env["TMPDIR"] = str(temporary)
    with killed:
        network = {"bandwidth_kbit": 100_000, "rtt_us": 0, "queue_packets": 100}
        told = up(killed, testbed(8080, address=link.FAR, network=network, programs=program()))
        os.kill(killed.process.pid, signal.SIGKILL)
    pid = told["servers"]["web"]["pid"]
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())
    following = AgentProcess(agent_file, tmp_path / "state")
    following.env["TMPDIR"] = str(temporary)
    with following as agent:
        # The emulator and the keepers of its namespaces hold no lock; only the dead agent did.
        found = agent.call("testbed", {"action": "left"})
        assert found == {"removed": [told["folder"]], "left": [], "boot": told["boot"]}
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"config": "no directive at all%.0s;"}, "did not start"),
        ({"fill": [{"path": "www/large", "bytes": 1 << 50}]}, "free some space"),
        ({"fill": [{"path": "../large", "bytes": 1}]}, "not a plain path"),
        ({"network": {"rtt_us": -1}}, "rtt_us is -1"),
        ({"network": {"rtt_us": 1}}, "does not exist or is not executable"),
        ({"programs": {"sh": {"source": "/bin/sh", "sha256": ""}}}, "no program of a test bed"),
        ({"programs": {"paddock-netem": {"source": __file__, "sha256": "0"}}}, "differs from the announced file"),
    ],
)
def test_failed_testbed_setup_is_reported_and_removed(
    agents: AgentProcess, temporary: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(AgentError, match=words):
        agents.call("testbed", testbed(free_port(), **change))
    assert list(temporary.iterdir()) == []


# What of lsphp a test bed has to do with: it listens where it is told, and has its number of children and its account
# from who started it.
LSPHP = """#!/usr/bin/env python3
import os, socketserver, sys

class Answer(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(f"{os.getuid()} {os.environ['PHP_LSAPI_CHILDREN']}".encode())

host, port = sys.argv[sys.argv.index("-b") + 1].split(":")
socketserver.TCPServer((host, int(port)), Answer).serve_forever()
"""


def test_lsphp_runs_as_web_server_account(agents: AgentProcess, temporary: Path, server_root: Path) -> None:
    program = server_root / "lsphp"
    program.write_text(LSPHP)
    program.chmod(0o755)
    request, port = testbed(free_port()), free_port()
    request["folders"].append("php")
    pool = {"name": "php", "kind": "lsphp", "listen": f"127.0.0.1:{port}", "binary": str(program), "children": 7}
    for children in (0, True, "7", 1001):
        wrong = {**request, "servers": [{**pool, "children": children}]}
        with pytest.raises(AgentError, match=r"children is .* from 1 to 1000"):
            agents.call("testbed", wrong)
    request["servers"].insert(0, pool)
    told = up(agents, request)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        uid, children = connection.makefile().read().split()
    assert (int(uid), children) == (testbed_files.account().pw_uid, "7")
    pid = told["servers"]["php"]["pid"]
    assert ended(agents)["left"] == []
    assert not Path(f"/proc/{pid}").exists()
    assert list(temporary.iterdir()) == []


def with_wordpress() -> dict[str, Any]:
    request = testbed(free_port())
    request["files"] += [{"path": path, "text": text, "mode": 0o644} for path, text in main_files.mariadb().items()]
    request["servers"].insert(0, {"name": "mariadb", "kind": "mariadb", "listen": "mariadb.sock"})
    return {**request, "application": "wordpress"}


def test_testbed_database_runs_unprivileged_with_root_owned_files(
    agent_file: Path, tmp_path: Path, temporary: Path
) -> None:
    """The database ends with the agent although it changed its account."""
    agent = AgentProcess(agent_file, tmp_path / "state")
    agent.env["TMPDIR"] = str(temporary)
    with agent:
        told = up(agent, with_wordpress())
        folder, pid = Path(told["folder"]), told["servers"]["mariadb"]["pid"]
        account = testbed_files.account().pw_uid
        status = Path(f"/proc/{pid}/status").read_text()
        assert f"Uid:\t{account}\t{account}\t{account}\t{account}\n" in status
        others = {path for path in folder.rglob("*") if path.lstat().st_uid == account}
        given = {folder / "mariadb" / name for name in ("data", "temp", "run")}
        assert given <= others
        files = {path for path in others - given if not given & set(path.parents)}
        assert all(path.is_file() for path in files), "a folder of the account's: it could exchange what lies there"
        assert {path.stat().st_mode & 0o777 for path in given} == {0o700}
        os.kill(agent.process.pid, signal.SIGKILL)
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_folders_of_other_accounts_named_like_testbed_are_left_alone(
    agents: AgentProcess, temporary: Path, tmp_path: Path
) -> None:
    temporary.chmod(0o1777)
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / ".lock").write_text("")
    (temporary / "paddock-testbed-link").symlink_to(victim)
    theirs = temporary / "paddock-testbed-theirs"
    theirs.mkdir()
    (theirs / ".lock").write_text("")
    for path in (theirs, theirs / ".lock", temporary / "paddock-testbed-link"):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert agents.call("testbed", {"action": "left"})["removed"] == []
    assert (victim / ".lock").exists()
    assert (theirs / ".lock").exists()


def test_temporary_folder_writable_by_another_account_is_rejected(agents: AgentProcess, temporary: Path) -> None:
    os.chown(temporary, 65534, 65534)
    with pytest.raises(AgentError, match="can be changed by the account nobody"):
        agents.call("testbed", testbed(free_port()))
    assert list(temporary.iterdir()) == []


def test_crashed_server_ends_testbed_with_its_message(agents: AgentProcess, temporary: Path) -> None:
    told = up(agents, testbed(free_port()))
    os.kill(told["servers"]["web"]["pid"], signal.SIGKILL)
    message = agents.receive_result()
    assert message["type"] == "error"
    assert "web ended during the run" in message["data"]["message"]
    assert list(temporary.iterdir()) == []


def test_new_testbed_with_reused_number_is_not_cleaned_up(agent_file: Path, tmp_path: Path, temporary: Path) -> None:
    argv = [tool("unshare"), "--ipc", "--", "sleep", "60"]
    asking = AgentProcess(agent_file, tmp_path / "state")
    asking.env["TMPDIR"] = str(temporary)
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as other, asking as agent:
        space = Path(f"/proc/{other.pid}/ns/ipc")
        try:
            assert eventually(lambda: space.readlink() != Path("/proc/self/ns/ipc").readlink())
            began, lost = processes.started(other.pid), {"action": "left", "namespaces": [str(space.readlink())]}
            assert agent.call("testbed", lost | {"tick": began - 1})["left"] == []
            (remnant,) = agent.call("testbed", lost | {"tick": began})["left"]
            assert remnant.startswith(f"process {other.pid} (")
            # After another start of the host, neither the number nor the time means anything.
            assert agent.call("testbed", lost | {"tick": began, "boot": "another/1"})["left"] == []
        finally:
            other.kill()


def test_process_that_joined_namespace_later_is_not_killed() -> None:
    """The namespace number may have belonged to a test bed that is gone."""
    argv = [tool("unshare"), "--ipc", "--", "sleep", "60"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as other:
        space = Path(f"/proc/{other.pid}/ns/ipc")
        try:
            assert eventually(lambda: space.readlink() != Path("/proc/self/ns/ipc").readlink())
            began, names = processes.started(other.pid), {str(space.readlink())}
            assert testbed_servers.inside(names) == [other.pid]
            assert testbed_servers.inside_since_before(names, began + 1) == [other.pid]
            assert testbed_servers.inside_since_before(names, began) == []
            assert began <= processes.now()
        finally:
            other.kill()


def test_link_profiles_have_limits() -> None:
    with pytest.raises(Refusal, match="bandwidth_kbit is 1; it must be a whole number from 8"):
        link.made({"bandwidth_kbit": 1}, str(netem_binary()))
