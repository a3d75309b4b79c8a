"""Deployments to a disk with little space or few inodes: whole or undone, with a true outcome."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agents.protocol import FileChange
from tests.agents.process import AgentError, AgentProcess
from tests.agents.sites import Sites
from tests.support.disk import Disk
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually

LEVELS_KB = range(0, 81, 2)
INODE_LEVELS = range(32)
FILLED_MEANWHILE = 25
PADDING = ("# " + "x" * 97 + "\n") * 60  # a site's file takes several blocks


class SmallHost:
    """A web server, its configuration and the agent's state on one small disk."""

    def __init__(self, sites: Sites, disk: Disk, agent_file: Path) -> None:
        self.sites, self.disk, self.agent_file = sites, disk, agent_file
        self.state = disk.path / "state"
        self.outcomes: Counter[str] = Counter()
        self._numbers = count()
        self.put_old()

    def put_old(self) -> None:
        """One site that will be changed, one that will be removed; the third is not there yet."""
        self.sites.put("shop.conf", self.sites.text("shop", "old") + PADDING)
        self.sites.put("gone.conf", self.sites.text("gone", "gone") + PADDING)
        self.sites.path("cart.conf").unlink(missing_ok=True)
        self.sites.server.reload()
        assert eventually(lambda: self.sites.body("shop") == "old")
        self.old = self.files()

    def files(self) -> dict[str, str]:
        """Each file below the configuration, hidden ones too, with its content."""
        folder = self.sites.path("shop.conf").parent
        return {path.name: path.read_text() for path in sorted(folder.iterdir())}

    def request(self, ident: str) -> dict[str, Any]:
        sites = self.sites
        return sites.request(
            sites.shop(sites.text("shop", "new") + PADDING),
            FileChange(str(sites.path("cart.conf")), "put", sites.text("cart", "cart") + PADDING, expect=""),
            FileChange(str(sites.path("gone.conf")), "remove"),
            ident=ident,
        )

    def new(self) -> dict[str, str]:
        texts = {"shop.conf": self.sites.text("shop", "new"), "cart.conf": self.sites.text("cart", "cart")}
        kept = {name: text for name, text in self.old.items() if name != "gone.conf"}
        return {**kept, **{name: text + PADDING for name, text in texts.items()}}

    def deploy(self) -> tuple[str, str, str]:
        """The transaction's id, its outcome (`refused` for an error) and the error."""
        ident = f"deploy-{next(self._numbers)}"
        with AgentProcess(self.agent_file, self.state) as agent:
            try:
                result = agent.call("apply", self.request(ident))
            except AgentError as error:
                return ident, "refused", error.message
        return ident, result["outcome"], result["error"]

    def check(self, ident: str, outcome: str, error: str) -> None:
        """The files are all old or all new, as the outcome says, and nothing else is left on the disk."""
        self.outcomes[outcome] += 1
        files = self.files()
        assert files in (self.old, self.new()), (outcome, error, sorted(files))
        which = "new" if files == self.new() else "old"
        assert (outcome == "applied") == (which == "new"), (outcome, error)
        assert self.sites.body("shop") == which
        assert self.sites.body("blog") == "blog"
        if outcome != "applied":
            assert "No space left on device" in error, error
            assert str(self.disk.path) in error, "the error names the path"
        assert not (self.state / "open").exists(), (outcome, error)
        kept = [path.name for path in self.state.glob("transactions/*~*")]
        assert [name for name in kept if name.startswith(f"{ident}~")] == [] or outcome == "applied"
        assert not (self.state / "shadow").exists()
        with AgentProcess(self.agent_file, self.state) as agent:
            known = agent.call("status", {"transaction": ident})["outcome"]
        assert known in ({"applied"} if which == "new" else {"rolled_back", "unknown"})

    def check_goes_on(self) -> None:
        """With space again, the same change is deployed."""
        self.disk.empty()
        if self.files() == self.old:
            _, outcome, error = self.deploy()
            assert outcome == "applied", error
        assert self.files() == self.new()
        self.put_old()


@pytest.fixture(params=["tmpfs", "ext4"])
def host(request: pytest.FixtureRequest, server_root: Path, agent_file: Path, tmp_path: Path) -> Iterator[SmallHost]:
    with Disk(server_root, request.param, image=tmp_path / "image") as disk:
        server = NginxInstance(server_root)
        sites = Sites(server)
        with server:
            assert eventually(lambda: sites.body("shop") == "old")
            small = SmallHost(sites, disk, agent_file)
            assert small.deploy()[1] == "applied"  # the state folder is there
            small.put_old()
            yield small


def test_deployment_is_whole_or_undone_at_any_free_space(host: SmallHost) -> None:
    for level in LEVELS_KB:
        host.disk.fill(level)
        host.check(*host.deploy())
        host.check_goes_on()
    assert host.outcomes["applied"] >= 5, host.outcomes
    assert host.outcomes["rolled_back"] >= 5, host.outcomes


def test_deployment_is_whole_or_undone_at_any_free_inodes(host: SmallHost) -> None:
    for level in INODE_LEVELS:
        host.disk.fill_inodes(level)
        host.check(*host.deploy())
        host.check_goes_on()
    assert host.outcomes["applied"] >= 2, host.outcomes
    assert host.outcomes["rolled_back"] >= 2, host.outcomes


def test_deployment_is_whole_or_undone_when_disk_fills_up(host: SmallHost) -> None:
    began = time.monotonic()
    host.check(*host.deploy())
    host.check_goes_on()
    taken = time.monotonic() - began
    host.outcomes.clear()
    for seed in range(FILLED_MEANWHILE):
        # The agent writes in the first part of a deployment and waits for the server in the rest.
        delay = random.Random(seed).uniform(0, taken if seed % 2 else taken / 10)

        def fill(delay: float = delay) -> None:
            time.sleep(delay)
            host.disk.fill(0)

        filler = threading.Thread(target=fill)
        filler.start()
        if seed == 0:
            filler.join()  # once before all of it
        said = host.deploy()
        filler.join()
        host.check(*said)
        host.check_goes_on()
    assert sum(host.outcomes.values()) == FILLED_MEANWHILE
    assert host.outcomes["applied"] >= 1, host.outcomes
    assert host.outcomes["rolled_back"] >= 1, host.outcomes
