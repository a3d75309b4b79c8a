"""kill -9 of the agent while a site is disabled: its file has one of its two names, and responses agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.host.faults import APPLY_POINTS
from agents.protocol import FileChange
from tests.agents.process import AgentProcess
from tests.agents.sites import Sites, sha256

COMMITTED = APPLY_POINTS.index("committed")


@pytest.mark.parametrize("point", APPLY_POINTS)
def test_site_is_old_or_new_when_agent_is_killed_while_disabling(
    point: str, nginx_sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    gone = killed_while_disabling(point, nginx_sites, agent_file, tmp_path)
    assert gone == (APPLY_POINTS.index(point) >= COMMITTED)


@pytest.mark.parametrize("point", ["switch-0", "reloaded", "committed"])
def test_site_is_old_or_new_on_every_web_server_when_agent_is_killed(
    point: str, sites: Sites, agent_file: Path, tmp_path: Path
) -> None:
    gone = killed_while_disabling(point, sites, agent_file, tmp_path)
    assert gone == (point == "committed")


def killed_while_disabling(point: str, sites: Sites, agent_file: Path, tmp_path: Path) -> bool:
    """Whether the site is disabled after recovery; else it is as before. Nothing else is left to be."""
    served, disabled = sites.path("shop.conf"), sites.path("shop.conf.disabled")
    text = served.read_text()
    request = sites.request(
        FileChange(str(served), "remove", expect=sha256(text)),
        FileChange(str(disabled), "put", text, expect=""),
        ident="disable-1",
        probes=[],
    )
    with AgentProcess(agent_file, tmp_path / "state", fault=f"kill:{point}") as agent:
        agent.send("apply", request)
        with pytest.raises(EOFError):
            while True:
                agent.receive()
        assert agent.process.wait(60) == -9, "the fault point was never reached"
    assert sites.body("blog") == "blog"
    with AgentProcess(agent_file, tmp_path / "state") as agent:
        agent.call("recover")
        gone = disabled.exists()
        assert served.exists() != gone
        assert (disabled if gone else served).read_text() == text
        assert sites.body("shop") == ("blog" if gone else "old")
        assert not sites.leftovers()
    return gone
