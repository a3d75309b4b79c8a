"""The name of an owner shows whether its process has ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from panel.core.owners import is_gone, owner_name
from tests.support.waiting import eventually

PRINT_NAME = "from panel.core.owners import owner_name; print(owner_name(), flush=True); input()"


def test_owner_is_gone_when_its_process_was_killed() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PRINT_NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert not is_gone(name) and not is_gone(f"{name}:1f2e3d4c")
    child.kill()
    assert eventually(lambda: is_gone(name))  # also while nobody has reaped it
    child.wait()
    assert is_gone(name)


def test_running_owner_is_not_gone() -> None:
    assert not is_gone(owner_name())


@pytest.mark.parametrize("part", [0, 2, 3])
def test_owner_differs_by_machine_and_start_time(part: int) -> None:
    parts = owner_name().split(":")
    parts[part] = "0"
    # another machine's process may run; another start time means that this one took the number of one that ended
    assert is_gone(":".join(parts)) == (part == 2)


@pytest.mark.parametrize("text", ["", "worker-1", "a:b:c:d", "host:1"])
def test_owner_with_unknown_format_is_not_gone(text: str) -> None:
    assert not is_gone(text)
