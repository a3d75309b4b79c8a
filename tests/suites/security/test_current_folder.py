"""The panel started in a folder of another account: none of the modules in that folder is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.process import ServerProcess
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
TRAP = """
from pathlib import Path
with (Path(__file__).parent / "imported").open("a") as file:
    print(__name__, file=file)
raise ImportError("this module was imported from the current folder")
"""


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    """Folder with a module for each one that the panel can import."""
    folder = tmp_path / "traps"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *packages_distributions(), "panel", "agents", "migrations"}:
        (folder / f"{name}.py").write_text(TRAP)
    return folder


@pytest.fixture
def panel(tmp_path: Path, traps: Path) -> Iterator[ServerProcess]:
    """`manage.py run` without Redis, in the folder with the traps."""
    port = free_port()
    env = {"PADDOCK_HOME": str(tmp_path / "home"), "PADDOCK_LOCAL_HOST": "0", "PADDOCK_STATIC_MANIFEST": "0"}
    argv = [sys.executable, str(ROOT / "manage.py"), "run", "--port", str(port)]
    process = ServerProcess(argv, tmp_path / "panel.log", env=env, cwd=traps).start()
    try:
        process.wait_for_port(port, timeout_s=120)
        yield process
    finally:
        process.stop(timeout_s=30)


def test_no_module_is_imported_from_the_current_folder(panel: ServerProcess, traps: Path) -> None:
    assert eventually(lambda: "==> ready" in panel.said()), panel.said()
    assert not (traps / "imported").exists(), (traps / "imported").read_text() + panel.said()


def test_a_command_imports_no_module_from_the_current_folder(tmp_path: Path, traps: Path) -> None:
    env = os.environ | {"PADDOCK_HOME": str(tmp_path / "home")}
    argv = [sys.executable, str(ROOT / "manage.py"), "migrate", "--plan"]
    process = ServerProcess(argv, tmp_path / "command.log", env=env, cwd=traps).start()
    assert process.process is not None
    assert process.process.wait(timeout=120) == 0, process.said()
    assert not (traps / "imported").exists(), (traps / "imported").read_text()
