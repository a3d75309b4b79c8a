"""Programs of a web server are found where its packages install them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.host import commands, detect


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_newest_lsphp_of_web_server_is_preferred_over_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "ls[ws]"
    servers = [{"engine": "nginx", "paths": {}}, {"engine": "openlitespeed", "paths": {"prefix": str(root)}}]
    monkeypatch.setattr(commands, "PATH", str(tmp_path / "bin"))
    assert detect.lsphp(servers) == detect.lsphp([]) == ""
    on_path = program(tmp_path / "bin" / "lsphp")
    assert detect.lsphp(servers) == on_path
    program(root / "lsphp74" / "bin" / "lsphp")
    newest = program(root / "lsphp83" / "bin" / "lsphp")
    program(root / "lsphp84" / "bin" / "lsphp", 0o644)
    assert detect.lsphp(servers) == newest, "and what cannot be run is none"
    assert detect.lsphp(servers[:1]) == on_path
