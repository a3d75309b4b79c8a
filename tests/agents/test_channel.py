"""Requests, responses and the end of the channel."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import protocol, wire
from agents.host import operations
from panel.remote import bundle
from tests.agents.process import AgentError, AgentProcess

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
    assert path.read_bytes() == b"".join(bundle.bundle().parts())
    assert bundle.written_to(tmp_path / "new") == path


def test_agent_runs_from_its_sources_when_they_are_compiled_for_another_python(tmp_path: Path) -> None:
    foreign = tmp_path / "agent.pyz"
    with zipfile.ZipFile(bundle.written_to(tmp_path / "own")) as own, zipfile.ZipFile(foreign, "w") as other:
        for name in own.namelist():
            content = own.read(name)
            other.writestr(name, b"\x01\x02\r\n" + content[4:] if name.endswith(".pyc") else content)
    with AgentProcess(foreign, tmp_path / "state") as agent:
        assert agent.call("hello")["pid"] == agent.process.pid


def test_agent_runs_compiled_modules_when_the_panel_has_the_same_python(agent_file: Path, tmp_path: Path) -> None:
    without_sources = tmp_path / "agent.pyz"
    with zipfile.ZipFile(agent_file) as own, zipfile.ZipFile(without_sources, "w") as other:
        for name in own.namelist():
            other.writestr(name, own.read(name) if name.endswith(".pyc") else b"raise SystemExit('not compiled')")
    with AgentProcess(without_sources, tmp_path / "state") as agent:
        assert agent.call("hello")["pid"] == agent.process.pid


def test_agent_started_from_a_relative_path_imports_after_it_left_the_folder(agent_file: Path, tmp_path: Path) -> None:
    argv = bundle.argv(sys.executable, agent_file.name)
    line = wire.encode({"v": wire.VERSION, "id": "1", "op": "ports", "args": {"count": 1}})
    done = subprocess.run(argv, input=line, capture_output=True, cwd=agent_file.parent, check=True)
    assert wire.decode(done.stdout.splitlines()[-1])["data"]["ports"]


@pytest.mark.parametrize(
    "path", sorted([AGENTS / "__main__.py", AGENTS / "wire.py", *(AGENTS / "host").rglob("*.py")]), ids=lambda p: p.name
)
def test_agent_source_is_python_38_without_dependencies(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in imported}
    assert roots <= sys.stdlib_module_names | {"agents"}
    assert not {name for name in roots if name.startswith("_") and name != "__future__"}
    assert "agents.protocol" not in imported


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
