"""Cache clearing removes files below the cache folders and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.process import AgentError, AgentProcess


def test_cache_clearing_removes_files_and_keeps_folders(agent: AgentProcess, tmp_path: Path) -> None:
    kept = tmp_path / "paddock-shop-proxy"
    (kept / "a" / "bc").mkdir(parents=True)
    (kept / "a" / "bc" / "one").write_text("12345")
    (kept / "two").write_text("123")
    beside = tmp_path / "paddock-blog-proxy"
    beside.mkdir()
    (beside / "three").write_text("1")
    folders = [str(kept), str(tmp_path / "paddock-shop-fastcgi")]  # the second was never made
    assert agent.call("empty", {"folders": folders, "roots": [str(tmp_path)]}) == {"files": 2, "bytes": 8}
    assert (kept / "a" / "bc").is_dir()
    assert [path for path in kept.rglob("*") if path.is_file()] == []
    assert (beside / "three").exists()


def test_cache_clearing_does_not_follow_links(agent: AgentProcess, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("mine")
    kept = tmp_path / "root" / "kept"
    kept.mkdir(parents=True)
    (kept / "link").symlink_to(other)
    (kept / "file").symlink_to(other / "file")
    found = agent.call("empty", {"folders": [str(kept)], "roots": [str(tmp_path / "root")]})
    assert found == {"files": 0, "bytes": 0}
    assert (other / "file").exists()
    kept.rename(tmp_path / "moved")
    kept.symlink_to(other)
    with pytest.raises(AgentError):
        agent.call("empty", {"folders": [str(kept)], "roots": [str(tmp_path / "root")]})
    assert (other / "file").exists()


def test_cache_clearing_rejects_folder_outside_roots(agent: AgentProcess, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folders in ([str(tmp_path)], ["/etc"], [], "x"):
        with pytest.raises(AgentError):
            agent.call("empty", {"folders": folders, "roots": [str(tmp_path)]})
    assert (tmp_path / "file").exists()
