"""A main file with workers that run as root is rejected for every web server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.protocol import FileChange
from tests.agents.process import AgentError, AgentProcess

MAINS = [
    ("nginx", "user root;\nevents {}\n"),
    ("nginx", "worker_processes 1;\n  user\troot root;\n"),
    ("native", 'user "root";\nevents {}\n'),
    ("apache", "ServerRoot /x\nUSER root\n"),
    ("apache", "User #0\n"),
    ("openlitespeed", "serverName x\nuser   root\n"),
]


def request(folder: Path, engine: str, text: str) -> dict[str, Any]:
    main = str(folder / "main.conf")
    control = {"engine": engine, "binary": "/usr/sbin/nginx", "prefix": str(folder), "main_config": main}
    control |= {"config_root": str(folder), "pid_file": str(folder / "pid")}
    change = vars(FileChange(main, "put", text))
    return {"transaction": "t1", "roots": [str(folder)], "files": [change], "engines": [control], "dry_run": True}


@pytest.mark.parametrize(("engine", "text"), MAINS)
def test_main_file_with_root_workers_is_rejected(agent: AgentProcess, tmp_path: Path, engine: str, text: str) -> None:
    with pytest.raises(AgentError) as refused:
        agent.call("apply", request(tmp_path, engine, text))
    assert "workers would run as root" in str(refused.value) and "nobody" in str(refused.value)
    assert not (tmp_path / "main.conf").exists()


def test_existing_main_file_with_root_workers_can_be_edited_elsewhere(agent: AgentProcess, tmp_path: Path) -> None:
    """The host's admin wrote that line. The agent's own test decides about the rest of the file."""
    text = "user root;\nevents {}\n"
    (tmp_path / "main.conf").write_text(text)
    result = agent.call("apply", request(tmp_path, "nginx", f"{text}# more\n"))
    assert "workers would run as root" not in str(result)
