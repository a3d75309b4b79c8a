"""The agent's state: what remains of finished transactions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.host import state
from tests.support.disk import Disk


def test_expired_transaction_is_removed_with_its_backups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    monkeypatch.setattr(state, "KEPT_TRANSACTIONS", 2)
    for number, ident in enumerate(("a", "a.rollback", "b", "c")):
        journal = state.Journal(ident)
        journal.keep_old(0, b"old")
        journal.begin({"entries": []})
        journal.end({"outcome": "applied"})
        os.utime(tmp_path / "open", (number, number))
        journal.close()
    kept = sorted(path.name for path in (tmp_path / "transactions").iterdir())
    assert kept == ["b.jsonl", "b~old-0", "c.jsonl", "c~old-0"]
    assert state.Journal("c").outcome() == {"outcome": "applied"}
    assert state.Journal("a").outcome() is None


def test_open_journal_belongs_to_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    journal = state.Journal("mine")
    journal.begin({"entries": []})
    assert state.open_transaction() == "mine"
    assert [record["record"] for record in journal.records()] == ["begin"]
    assert state.Journal("other").records() == []


def test_state_is_settled_while_no_transaction_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    assert state.is_settled()
    journal = state.Journal("mine")
    journal.begin({"entries": []})
    assert not state.is_settled()
    journal.end({"outcome": "applied"})
    journal.close()
    assert state.is_settled()
    (tmp_path / "open").write_text("torn")
    assert not state.is_settled()


def test_journal_reserves_space_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    journal = state.Journal("mine")
    journal.begin({"entries": []})
    assert (tmp_path / "open").stat().st_blocks * 512 >= state.ROOM
    assert (tmp_path / "transactions" / "mine.jsonl").exists()
    assert [record["record"] for record in state.Journal("mine").records()] == ["begin"]
    journal.append("step", {"step": {"name": "stage"}})
    journal.end({"outcome": "applied", "error": "", "steps": []})
    journal.close()
    path = tmp_path / "transactions" / "mine.jsonl"
    assert b"\0" not in path.read_bytes()
    assert [record["record"] for record in journal.records()] == ["begin", "step", "outcome"]


def test_reopened_journal_overwrites_torn_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    journal = state.Journal("mine")
    journal.begin({"entries": []})
    del journal
    content = (tmp_path / "open").read_bytes()
    used = len(content.rstrip(b"\0"))
    torn = b'{"record": "step", "step": ' + b"x" * 500
    (tmp_path / "open").write_bytes(content[:used] + torn + content[used + len(torn) :])
    again = state.Journal("mine")
    again.append("mark", {"name": "reloading"})
    assert [record["record"] for record in again.records()] == ["begin", "mark"]


def test_outcome_is_shortened_when_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Disk(tmp_path / "disk", "tmpfs", image=tmp_path / "image") as disk:
        monkeypatch.setenv("PADDOCK_AGENT_STATE", str(disk.path / "state"))
        journal = state.Journal("mine")
        journal.begin({"entries": []})
        disk.fill(0)
        step = {"name": "test", "status": "failed", "argv": ["nginx", "-t"], "output": "x" * 60_000}
        journal.end({"outcome": "rolled_back", "error": "x" * 60_000, "steps": [step] * 3})
        journal.close()
        outcome = state.Journal("mine").outcome()
    assert outcome is not None
    assert outcome["outcome"] == "rolled_back"
    assert len(outcome["error"]) == state.MAX_SHORT_ERROR
    assert [told["name"] for told in outcome["steps"]] == ["test"] * 3
