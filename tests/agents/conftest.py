"""The agent as the panel runs it: the zipapp in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.remote import bundle
from tests.agents.process import AgentProcess


@pytest.fixture(scope="session")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle.written_to(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def agent(agent_file: Path, tmp_path: Path) -> Iterator[AgentProcess]:
    with AgentProcess(agent_file, tmp_path / "state") as process:
        yield process
