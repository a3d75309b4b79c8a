"""Log files: their last lines, and following them through rotation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.agents.process import AgentError, AgentProcess


def tail(agent: AgentProcess, path: Path, lines: int = 3) -> Any:
    return agent.call("tail", {"path": str(path), "lines": lines, "roots": [str(path.parent)]})["lines"]


def test_log_returns_last_lines_in_order(agent: AgentProcess, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("".join(f"line {number}\n" for number in range(50_000)) + "half")
    assert tail(agent, log) == ["line 49998", "line 49999", "half"]
    assert tail(agent, log, 0) == []


def test_short_log_is_returned_whole(agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\n\xff\xfe\n")
    assert tail(agent, tmp_path / "a.log") == ["one", "\ufffd\ufffd"]


def test_log_follow_survives_rotation_and_ends_on_cancel(agent: AgentProcess, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    log.write_text("old\n")
    ident = agent.send("tail", {"path": str(log), "roots": [str(tmp_path)], "follow": True})
    assert agent.receive()["data"] == {"lines": ["old"]}
    with log.open("a") as file:
        file.write("added\n")
    assert agent.receive()["data"] == {"lines": ["added"]}
    log.rename(tmp_path / "access.log.1")
    log.write_text("rotated\n")
    assert agent.receive()["data"] == {"lines": ["rotated"]}
    agent.send("cancel", {"id": ident})
    kinds = [agent.receive()["type"], agent.receive()["type"]]
    assert kinds == ["result", "result"]


def test_log_follow_ends_with_channel(agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n")
    agent.send("tail", {"path": str(tmp_path / "a.log"), "roots": [str(tmp_path)], "follow": True})
    agent.receive()
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert agent.process.wait(60) == 0


@pytest.mark.parametrize("kind", ["outside", "link", "linked folder", "fifo", "dots", "relative", "no roots"])
def test_log_outside_roots_is_rejected(agent: AgentProcess, tmp_path: Path, kind: str) -> None:
    root = tmp_path / "log"
    root.mkdir()
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    (root / "link").symlink_to(secret)
    (root / "folder").symlink_to(tmp_path)
    os.mkfifo(root / "fifo")
    path = {
        "outside": str(secret),
        "link": str(root / "link"),
        "linked folder": str(root / "folder" / "secret"),
        "fifo": str(root / "fifo"),
        "dots": f"{root}/../secret",
        "relative": "secret",
        "no roots": str(root / "link"),
    }[kind]
    roots = [] if kind == "no roots" else [str(root)]
    with pytest.raises(AgentError) as refused:
        agent.call("tail", {"path": path, "roots": roots})
    assert refused.value.code in {"refused", "invalid"}
    assert "s3cret" not in refused.value.message
