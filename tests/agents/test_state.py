"""What an agent keeps of transactions that have ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agents.host import state


def test_what_a_forgotten_transaction_kept_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_open_journal_belongs_to_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    journal = state.Journal("mine")
    journal.begin({"entries": []})
    assert state.open_transaction() == "mine"
    assert [record["record"] for record in journal.records()] == ["begin"]
    assert state.Journal("other").records() == []


def test_a_state_is_settled_once_it_was_looked_at_and_while_nothing_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    assert not state.is_settled()
    state.adopt_older()
    assert state.is_settled()
    journal = state.Journal("mine")
    journal.begin({"entries": []})
    assert not state.is_settled()
    journal.end({"outcome": "applied"})
    journal.close()
    assert state.is_settled()
    (tmp_path / "open").write_text("torn")
    assert not state.is_settled()
