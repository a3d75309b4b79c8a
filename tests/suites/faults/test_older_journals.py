"""A panel is upgraded while an agent of before today's journals was cut off on a host: the new agent recovers it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.host import state
from agents.host.faults import APPLY_POINTS
from tests.agents.process import AgentError, AgentProcess
from tests.agents.sites import Sites
from tests.suites.faults.scene import IDENT, Scene
from tests.suites.faults.test_killed_agent import COMMITTED, killed_at


def as_older(root: Path) -> None:
    """Lays a state folder out as those agents did: a folder for each transaction, a mark that names the open one."""
    kept = root / "transactions"
    for journal in kept.glob("*.jsonl"):
        if journal.stat().st_size:
            _journal_into(kept / journal.stem, journal)
        else:  # the name that is reserved for the open one
            journal.unlink()
    if (root / "open").exists():
        ident = json.loads((root / "open").read_text().splitlines()[0])["transaction"]
        _journal_into(kept / ident, root / "open")
        (root / "open").write_text(ident)
    for path in kept.glob("*~*"):
        ident, _, name = path.name.partition("~")
        kind, _, number = name.partition("-")
        path.rename(kept / ident / "old" / (number if kind == "old" else f"{number}.edited"))


def _journal_into(folder: Path, journal: Path) -> None:
    (folder / "old").mkdir(parents=True)
    lines = journal.read_text().rstrip("\0").split("\n")  # the last may be cut off, and stays so
    records = [json.loads(line) for line in lines[:-1]]
    for record in records:
        record.pop("transaction", None)
    text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    (folder / "journal.jsonl").write_text(text + lines[-1])
    journal.unlink()


@pytest.mark.parametrize("point", ["journaled", "switch-0", "reloaded", "committed"])
def test_transaction_of_older_agent_is_recovered(
    point: str, nginx_sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    scene = Scene(nginx_sites)
    killed_at(point, scene, agent_file, tmp_path / "state")
    as_older(tmp_path / "state")
    scene.assert_answers()
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert scene.assert_whole(agent) == ("new" if APPLY_POINTS.index(point) >= COMMITTED else "old")
        scene.assert_goes_on(agent)
    assert not [path for path in (tmp_path / "state" / "transactions").iterdir() if path.is_dir()]


def test_next_transaction_recovers_journal_of_older_agent(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene = Scene(nginx_sites)
    killed_at("switch-1", scene, agent_file, tmp_path / "state")
    as_older(tmp_path / "state")
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        scene.assert_goes_on(agent)
        assert agent.call("status", {"transaction": IDENT})["outcome"] == "rolled_back"


def test_running_agent_recovers_transaction_of_returning_older_agent(
    nginx_sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    """Two panels of different versions look after one host."""
    scene = Scene(nginx_sites)
    with AgentProcess(agent_file, tmp_path / "state") as newer:
        newer.call("recover")
        killed_at("switch-1", scene, agent_file, tmp_path / "state")
        as_older(tmp_path / "state")
        assert scene.assert_whole(newer) == "old"


def test_transaction_of_older_agent_can_be_rolled_back(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene = Scene(nginx_sites)
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert agent.call("apply", scene.request())["outcome"] == "applied"
    as_older(tmp_path / "state")
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert agent.call("rollback", {"transaction": IDENT})["outcome"] == "applied"
    assert nginx_sites.path("shop.conf").read_text() == scene.old["shop.conf"]
    assert nginx_sites.path("gone.conf").read_text() == scene.old["gone.conf"]


def test_unreadable_journal_is_reported(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene, root = Scene(nginx_sites), tmp_path / "state"
    killed_at("switch-1", scene, agent_file, root)
    as_older(root)
    journal = root / "transactions" / IDENT / "journal.jsonl"
    journal.write_bytes(b"\0" * 20 + b"\n" + journal.read_bytes())
    with AgentProcess(agent_file, root) as agent:
        for operation, args in (("recover", {}), ("apply", scene.request())):
            with pytest.raises(AgentError) as caught:
                agent.call(operation, args)
            assert caught.value.code == "failed"
            assert str(journal) in caught.value.message
            assert f"delete {root}/open" in caught.value.message
        assert journal.exists()
        assert (root / "open").read_text() == IDENT
        (root / "open").unlink()  # as it says
        agent.call("recover")


@pytest.mark.parametrize("cut", ["files", "journal"])
def test_interrupted_rename_is_restarted(cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDOCK_AGENT_STATE", str(tmp_path))
    journal = state.Journal("mine")
    journal.keep_old(0, b"old")
    journal.begin({"entries": []})
    after = {path: path.read_bytes() for path in (tmp_path / "open", tmp_path / "transactions" / "mine~old-0")}
    as_older(tmp_path)
    del journal
    if cut == "files":  # they have their names, and the journal has not
        (tmp_path / "transactions/mine/old/0").rename(tmp_path / "transactions/mine~old-0")
    else:  # all but the old folder is done
        for path, content in after.items():
            path.write_bytes(content)
    state.adopt_older()
    assert state.open_transaction() == "mine"
    assert state.Journal("mine").old(0) == b"old"
    assert [path.name for path in (tmp_path / "transactions").iterdir()] == ["mine~old-0"]
