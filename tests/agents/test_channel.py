"""Requests, answers and the end of the channel."""

from __future__ import annotations

import _thread
import ast
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import protocol, wire
from agents.host import lean, operations
from agents.protocol import FileChange
from panel.remote import bundle
from tests.agents.process import AgentError, AgentProcess
from tests.agents.sites import Sites

# What costs a cold connection milliseconds.
HEAVY = {
    *("dataclasses", "typing", "subprocess", "ssl", "socket", "ctypes", "inspect", "logging", "http", "email"),
    *("enum", "re", "functools", "collections", "contextlib", "threading", "json", "runpy", "importlib.util"),
}
AGENTS = Path(protocol.__file__).parent


def test_agent_announces_version_when_ready(agent: AgentProcess) -> None:
    assert agent.ready["type"] == "ready"
    assert agent.ready["data"]["pid"] == agent.process.pid
    assert agent.call("hello") == agent.ready["data"]


def test_agent_implements_exactly_the_protocol_operations() -> None:
    assert set(operations.MODULES) | {"cancel"} == set(protocol.OPERATIONS)


def test_unknown_operation_is_rejected(agent: AgentProcess) -> None:
    with pytest.raises(AgentError) as refused:
        agent.call("shutdown -h now")
    assert refused.value.code == "invalid"
    assert agent.call("hello")["pid"] == agent.process.pid


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"[1, 2]\n",
        b'{"v": 2, "id": "1", "op": "hello"}\n',
        b'{"v": 1, "id": 1, "op": "hello"}\n',
        b'{"v": 1, "id": "1", "op": "hello", "args": []}\n',
        b'{"v": 1, "op": "hello"}\n',
    ],
)
def test_malformed_request_is_rejected_and_channel_stays_open(agent: AgentProcess, line: bytes) -> None:
    agent.send_line(line)
    answer = agent.receive()
    assert (answer["type"], answer["data"]["code"]) == ("error", "invalid")
    assert agent.call("hello")["pid"] == agent.process.pid


def test_agent_ends_when_input_ends(agent: AgentProcess) -> None:
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert agent.process.wait(60) == 0


def test_cancel_of_unknown_request_is_reported(agent: AgentProcess) -> None:
    assert agent.call("cancel", {"id": "99"}) == {"cancelled": False}


def test_agent_bundle_is_reproducible(tmp_path: Path) -> None:
    script = "from panel.remote.bundle import bundle; print(bundle().name)"
    names = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
            cwd=AGENTS.parent,
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert names == {bundle.bundle().name}


def test_agent_bundle_on_disk_is_private_and_complete(tmp_path: Path) -> None:
    path = bundle.written_to(tmp_path / "new")
    assert path.stat().st_mode & 0o777 == 0o700
    assert path.read_bytes() == bundle.bundle().content
    assert bundle.written_to(tmp_path / "new") == path


def test_agent_runs_from_source_under_another_python_version(tmp_path: Path) -> None:
    foreign = tmp_path / "agent.pyz"
    magic = bundle.importlib.util.MAGIC_NUMBER
    content = bundle.bundle().content
    assert content.startswith(magic)
    foreign.write_bytes(b"\x01\x02\r\n" + content[len(magic) :])
    with AgentProcess(foreign, tmp_path / "state") as agent:
        assert agent.call("hello")["pid"] == agent.process.pid


@pytest.mark.parametrize(
    "path", sorted([AGENTS / "wire.py", AGENTS / "start.py", *(AGENTS / "host").rglob("*.py")]), ids=lambda p: p.name
)
def test_agent_source_is_python_38_without_dependencies(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in imported}
    assert roots <= sys.stdlib_module_names | {"agents", "_sha2"}  # which Python 3.12 brought
    assert "agents.protocol" not in imported


def test_agent_start_imports_no_heavy_modules(agent_file: Path) -> None:
    script = f"import sys; sys.path.insert(0, {str(agent_file)!r}); import agents.host.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-ISB", "-c", script], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split())


def test_apply_imports_no_heavy_modules(agent_file: Path) -> None:
    """All that apply, and undoing it, import; but for TLS, copies and the server's own module."""
    modules = "agents.host.apply, agents.host.drift, agents.host.engines.nginx, agents.host.engines.native"
    script = f"import sys; sys.path.insert(0, {str(agent_file)!r}); import {modules}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-ISB", "-c", script], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split())


def test_first_apply_imports_no_heavy_modules(agent_file: Path, tmp_path: Path, nginx_sites: Sites) -> None:
    """One that brings a new name is tested in a tree of links, which is taken away again."""
    process = AgentProcess(agent_file, tmp_path / "state")
    process.argv[1:1] = ["-X", "importtime"]
    with (tmp_path / "imported").open("wb") as sink:
        process.errors = sink
        with process as agent:
            new = FileChange(str(nginx_sites.path("new.conf")), "put", nginx_sites.text("new", "new"), expect="")
            assert agent.call("apply", nginx_sites.request(new))["outcome"] == "applied"
    imported = {line.rpartition("|")[2].strip() for line in (tmp_path / "imported").read_text().splitlines()}
    assert "agents.host.shadow" in imported
    assert not HEAVY & imported
    assert not (tmp_path / "state" / "shadow").exists()


def test_late_imports_work_when_archive_is_gone(tmp_path: Path) -> None:
    path = bundle.written_to(tmp_path / "bundle")
    with AgentProcess(path, tmp_path / "state") as agent:
        path.unlink()  # another panel has put a newer one there and forgot this
        assert agent.call("ports", {"count": 1})["ports"]


def test_agent_start_avoids_zipapp_imports(agent_file: Path) -> None:
    argv = bundle.argv(sys.executable, str(agent_file))
    done = subprocess.run([argv[0], "-X", "importtime", *argv[1:]], input=b"", capture_output=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "agents.host.main" in imported
    assert not HEAVY & imported


def test_agent_runs_without_cpython_private_modules(agent_file: Path, tmp_path: Path, nginx_sites: Sites) -> None:
    """Where the modules behind the standard library's are not there, the agent takes the public ones."""
    script = (
        "import ctypes, json, signal, socket, sys; "
        "sys.modules.update(dict.fromkeys(('_ctypes', '_json', '_signal', '_socket'))); "
        "sys.path.insert(0, sys.argv[1]); import start"
    )
    process = AgentProcess(agent_file, tmp_path / "state")
    process.argv = [sys.executable, "-ISBc", script, str(agent_file)]
    with process as agent:
        result = agent.call("apply", nginx_sites.request(nginx_sites.shop(nginx_sites.text("shop", "new"))))
        assert result["outcome"] == "applied", result
        assert nginx_sites.body("shop") == "new"


def test_protocol_messages_round_trip() -> None:
    message = {"v": wire.VERSION, "id": "1", "op": "apply", "args": {"text": 'a\n"ü\u2028'}}
    line = wire.encode(message)
    assert line.count(b"\n") == 1
    assert wire.decode(line) == message


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_wire_lines_match_json_module(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))
    assert wire.dumps(value) == text
    assert wire.loads(f" {text} \r\n") == value


@pytest.mark.parametrize("text", ["", "{", "{} {}", "nul", "[1,]", "{'a': 1}", '"\x01"', "[1", '{"a" 1}'])
def test_wire_rejects_invalid_json(text: str) -> None:
    with pytest.raises(ValueError):
        wire.loads(text)


def test_event_wakes_waiter_once() -> None:
    event = lean.Event()
    assert not event.wait(0)
    assert not event.wait(0.001)
    ended = lean.start(event.wait)
    event.set()
    event.set()
    assert ended.wait(30)
    assert event.wait()
    assert event.is_set()


def test_worker_thread_is_reused() -> None:
    lean._Lent.idle.clear()
    threads, gate = [], lean.Event()

    def note() -> None:
        threads.append(_thread.get_ident())

    def lent(*work: Callable[[], object]) -> None:
        for ended in [lean.lend(item) for item in work]:
            assert ended.wait(30)

    def until_idle(count: int) -> None:
        deadline = time.monotonic() + 30
        while len(lean._Lent.idle) < count:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    for _ in range(3):
        lent(note)
        until_idle(1)
    assert len(set(threads)) == 1
    held = lean.lend(gate.wait)
    lent(note)
    gate.set()
    assert held.wait(30)
    assert len(set(threads)) == 2
    until_idle(2)


def test_namespace_work_runs_in_own_thread() -> None:
    modules = [operations.MODULES[name] for name in sorted(operations.LEAVES_THREAD)]
    names = "; ".join(f"import {module}" for module in modules)
    code = f"import sys; {names}; print('agents.host.netns' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=AGENTS.parent, check=True)
    assert done.stdout == "False\n"
