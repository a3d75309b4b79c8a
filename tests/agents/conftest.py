"""The agent as the panel runs it: the zipapp in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from panel.remote import bundle
from tests.agents.process import AgentProcess
from tests.agents.sites import Sites
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.openlitespeed import OpenLiteSpeedInstance, source
from tests.support.waiting import eventually


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.written_to(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def agent(agent_file: Path, tmp_path: Path) -> Iterator[AgentProcess]:
    with AgentProcess(agent_file, tmp_path / "state") as process:
        yield process


SERVERS: dict[str, Callable[[Path], Any]] = {"nginx": NginxInstance, "apache": ApacheInstance, "gallop": GallopInstance}
if source() is not None:  # it is in no distribution: one of them where PADDOCK_OPENLITESPEED names an installation
    SERVERS["openlitespeed"] = lambda root: OpenLiteSpeedInstance(root / "lsws").manage(more="include ../conf.d/*.conf")


@pytest.fixture(params=list(SERVERS))
def sites(request: pytest.FixtureRequest, server_root: Path) -> Iterator[Sites]:
    """A running server with the sites shop and blog."""
    yield from _running(request.param, server_root)


@pytest.fixture(params=[name for name in SERVERS if name != "openlitespeed"])
def strict_sites(request: pytest.FixtureRequest, server_root: Path) -> Iterator[Sites]:
    """The same on servers whose test refuses what they do not know anywhere; the other's is in test_openlitespeed."""
    yield from _running(request.param, server_root)


def _running(name: str, server_root: Path) -> Iterator[Sites]:
    server = SERVERS[name](server_root)
    made = Sites(server)
    with server:
        assert eventually(lambda: made.body("shop") == "old")
        yield made


@pytest.fixture
def nginx_sites(server_root: Path) -> Iterator[Sites]:
    server = NginxInstance(server_root)
    made = Sites(server)
    with server:
        assert eventually(lambda: made.body("shop") == "old")
        yield made
