"""The SSH connection is cut at each step of a transaction; the agent completes it alone."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.host.faults import APPLY_POINTS, UNDO_POINTS
from panel.remote.errors import ConnectionLost
from panel.remote.pool import Pool
from panel.remote.target import Target
from tests.agents.process import AgentProcess
from tests.agents.sites import Sites
from tests.suites.faults.scene import IDENT, Scene
from tests.support.sshd import SshServer
from tests.support.waiting import eventually


class Cut:
    """A real sshd whose agent holds at one point until its connection is gone."""

    def __init__(self, sshd: SshServer, state: Path, point: str) -> None:
        self.state = state
        sshd.environment = {
            "PADDOCK_AGENT_STATE": str(state),
            "PADDOCK_AGENT_TEST": "1",
            "PADDOCK_AGENT_FAULT": f"hold:{point}",
        }
        sshd.start()
        self.target = Target(
            name="web1",
            kind="ssh",
            address="127.0.0.1",
            port=sshd.port,
            username=sshd.username,
            private_key=sshd.private_key,
            host_key=sshd.host_key,
        )
        self.lost: list[BaseException] = []

    def apply_and_cut(self, pool: Pool, request: dict[str, Any]) -> int:
        """Starts the transaction, waits until it holds, kills the sshd that carries it; the agent's process id."""
        caller = threading.Thread(target=self._apply, args=(pool, request))
        caller.start()
        held = self.state / "held"
        assert eventually(lambda: held.exists() and bool(held.read_text())), "the fault point was never reached"
        agent = int(held.read_text())
        os.kill(int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        caller.join(60)
        return agent

    def _apply(self, pool: Pool, request: dict[str, Any]) -> None:
        try:
            with pool.session(self.target) as agent:
                agent.call("apply", request)
        except ConnectionLost as error:
            self.lost.append(error)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.close()


@pytest.fixture
def sshd(server_root: Path) -> Iterator[SshServer]:
    server = SshServer(server_root / "sshd")
    yield server
    server.stop()


def is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def whole_after_cut(point: str, sites: Sites, sshd: SshServer, pool: Pool, state: Path, agent_file: Path) -> str:
    """Which of "old" and "new" stands whole after the connection was cut there; the sites answer all the time."""
    scene = Scene(sites)
    cut = Cut(sshd, state, point)
    agent_pid = cut.apply_and_cut(pool, scene.request())
    assert [type(error) for error in cut.lost] == [ConnectionLost]
    scene.assert_answers()
    assert eventually(lambda: is_gone(agent_pid)), "the agent ends once its transaction has"
    with AgentProcess(agent_file, state) as agent:
        assert agent.call("status", {"transaction": IDENT})["outcome"] == "applied"
        return scene.assert_whole(agent)


@pytest.mark.parametrize("point", APPLY_POINTS)
def test_apply_completes_when_connection_is_cut_at_any_step(
    point: str, nginx_sites: Sites, sshd: SshServer, pool: Pool, tmp_path: Path, agent_file: Path
) -> None:
    assert whole_after_cut(point, nginx_sites, sshd, pool, tmp_path / "state", agent_file) == "new"


@pytest.mark.parametrize("point", ["switched", "reloaded"])
def test_apply_completes_on_every_web_server_when_connection_is_cut(
    point: str, sites: Sites, sshd: SshServer, pool: Pool, tmp_path: Path, agent_file: Path
) -> None:
    assert whole_after_cut(point, sites, sshd, pool, tmp_path / "state", agent_file) == "new"


@pytest.mark.parametrize("point", ["undoing", "undo-1", "undone", "undo-reloaded"])
def test_rollback_completes_when_connection_is_cut(
    point: str, nginx_sites: Sites, sshd: SshServer, pool: Pool, tmp_path: Path, agent_file: Path
) -> None:
    assert point in UNDO_POINTS
    scene = Scene(nginx_sites)
    cut = Cut(sshd, tmp_path / "state", point)
    agent_pid = cut.apply_and_cut(pool, scene.request(healthy=False))
    scene.assert_answers()
    assert eventually(lambda: is_gone(agent_pid))
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert agent.call("status", {"transaction": IDENT})["outcome"] == "rolled_back"
        assert scene.assert_whole(agent) == "old"


def test_panel_reconnects_and_gets_outcome(nginx_sites: Sites, sshd: SshServer, pool: Pool, tmp_path: Path) -> None:
    scene = Scene(nginx_sites)
    cut = Cut(sshd, tmp_path / "state", "switched")
    cut.apply_and_cut(pool, scene.request())
    with pool.session(cut.target) as agent:
        agent.call("recover")  # waits for the agent that is still at it
        first = agent.call("status", {"transaction": IDENT})
        assert first["outcome"] == "applied"
        assert agent.call("apply", scene.request()) == first
