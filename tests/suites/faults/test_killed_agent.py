"""kill -9 of the agent at each step of a transaction: files are old or new, and sites respond."""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from agents.host.faults import APPLY_POINTS, UNDO_POINTS
from tests.agents.process import AgentProcess
from tests.agents.sites import Sites, sha256
from tests.suites.faults.scene import Scene
from tests.support.disk import Disk

COMMITTED = APPLY_POINTS.index("committed")


def killed_at(point: str, scene: Scene, agent_file: Path, state: Path, *, healthy: bool = True) -> None:
    with AgentProcess(agent_file, state, fault=f"kill:{point}") as agent:
        agent.send("apply", scene.request(healthy=healthy))
        with pytest.raises(EOFError):
            while True:
                agent.receive()
        assert agent.process.wait(60) == -9, "the fault point was never reached"


@pytest.mark.parametrize("point", APPLY_POINTS)
def test_files_are_old_or_new_when_agent_is_killed_while_applying(
    point: str, nginx_sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    scene = Scene(nginx_sites)
    killed_at(point, scene, agent_file, tmp_path / "state")
    scene.assert_answers()
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        which = scene.assert_whole(agent)
        assert which == ("new" if APPLY_POINTS.index(point) >= COMMITTED else "old")
        scene.assert_goes_on(agent)


@pytest.mark.parametrize("point", UNDO_POINTS)
def test_files_are_old_or_new_when_agent_is_killed_during_rollback(
    point: str, nginx_sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    scene = Scene(nginx_sites)
    killed_at(point, scene, agent_file, tmp_path / "state", healthy=False)
    scene.assert_answers()
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert scene.assert_whole(agent) == "old"
        scene.assert_goes_on(agent)


@pytest.mark.parametrize("point", ["switch-1", "reloaded", "undo-0"])
def test_recovery_succeeds_when_agent_is_killed_again(
    point: str, nginx_sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    scene = Scene(nginx_sites)
    killed_at(point, scene, agent_file, tmp_path / "state", healthy=point != "undo-0")
    for again in UNDO_POINTS:
        with AgentProcess(agent_file, tmp_path / "state", fault=f"kill:{again}") as agent:
            agent.send("recover")
            with pytest.raises(EOFError):
                agent.receive_result()
        scene.assert_answers()
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert scene.assert_whole(agent) == "old"


@pytest.mark.parametrize("point", ["switched", "reloaded", "probed", "committed"])
def test_recovery_works_on_every_web_server(point: str, sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene = Scene(sites)
    killed_at(point, scene, agent_file, tmp_path / "state")
    scene.assert_answers()
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert scene.assert_whole(agent) == ("new" if point == "committed" else "old")


def test_next_transaction_recovers_automatically(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene = Scene(nginx_sites)
    killed_at("switch-1", scene, agent_file, tmp_path / "state")
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        scene.assert_goes_on(agent)
        assert agent.call("status", {"transaction": "deploy-1"})["outcome"] == "rolled_back"
        assert not nginx_sites.path("cart.conf").exists()
        assert nginx_sites.path("gone.conf").exists()


def test_recovery_starts_web_server_that_died_with_agent(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    """As after a power cut during the switch."""
    scene = Scene(nginx_sites)
    killed_at("switch-1", scene, agent_file, tmp_path / "state")
    nginx_sites.server.stop()
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert scene.assert_whole(agent) == "old"


def test_recovery_starts_web_server_that_is_quitting(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    """A quitting nginx finishes its requests, ignores a reload and ends."""
    scene = Scene(nginx_sites)
    killed_at("switch-1", scene, agent_file, tmp_path / "state")
    with socket.create_connection(("127.0.0.1", nginx_sites.port)) as request:
        request.sendall(b"GET / HTTP/1.1\r\nHost: shop.test\r\n")  # not finished yet
        pid = nginx_sites.server.pid
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)
        end_of_request = threading.Timer(0.5, request.close)
        end_of_request.start()
        with AgentProcess(agent_file, tmp_path / "state") as agent:
            assert scene.assert_whole(agent) == "old"
        end_of_request.join()


def test_edit_between_kill_and_recovery_is_saved(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene = Scene(nginx_sites)
    killed_at("switched", scene, agent_file, tmp_path / "state")
    nginx_sites.put("shop.conf", nginx_sites.text("shop", "by hand"))
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert scene.assert_whole(agent) == "old"
    kept = [path.read_text() for path in (tmp_path / "state").rglob("*~edited-*")]
    assert kept == [nginx_sites.text("shop", "by hand")]


def test_journal_cut_off_in_first_record_is_ignored(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene, journal = Scene(nginx_sites), tmp_path / "state" / "open"
    killed_at("journaled", scene, agent_file, tmp_path / "state")
    journal.write_bytes(journal.read_bytes()[:40])  # the power failed before it was on the disk; nothing was changed
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        assert scene.assert_whole(agent) == "old"
        assert not journal.exists()
        scene.assert_goes_on(agent)


@pytest.mark.parametrize("point", ["staging", "staged", "switch-0", "reloading", "live"])
def test_full_disk_rolls_everything_back(point: str, nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene = Scene(nginx_sites)
    with AgentProcess(agent_file, tmp_path / "state", fault=f"full:{point}") as agent:
        result = agent.call("apply", scene.request())
        assert result["outcome"] == "rolled_back"
        assert "No space left on device" in result["error"]
        assert scene.assert_whole(agent) == "old"


def test_file_comparison_recovers_killed_transaction_first(
    nginx_sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    """A plan compares files first, and half a deployment is not a manual edit."""
    scene = Scene(nginx_sites)
    killed_at("switch-1", scene, agent_file, tmp_path / "state")
    path = str(nginx_sites.path("shop.conf"))
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        files = [{"path": path, "sha256": sha256(scene.old["shop.conf"]), "secret": False}]
        assert agent.call("drift", {"files": files}) == {"files": []}
        assert not (tmp_path / "state" / "open").exists()
        assert scene.assert_whole(agent) == "old"


def test_edit_is_saved_beside_its_file_when_disk_is_full(nginx_sites: Sites, agent_file: Path, tmp_path: Path) -> None:
    scene = Scene(nginx_sites)
    with Disk(tmp_path / "disk", "tmpfs", image=tmp_path / "image") as disk:
        killed_at("switched", scene, agent_file, disk.path / "state")
        edit = nginx_sites.text("shop", "by hand")
        nginx_sites.put("shop.conf", edit)
        disk.fill(0)
        with AgentProcess(agent_file, disk.path / "state") as agent:
            assert scene.assert_whole(agent) == "old"
    assert nginx_sites.path(".shop.conf.edited").read_text() == edit
