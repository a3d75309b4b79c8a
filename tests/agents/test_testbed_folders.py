"""Folders of test beds are removed, although processes that are just ending may write to them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from agents.host import testbed_files


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_folder_is_removed_while_an_ending_server_writes_to_it() -> None:
    folder = testbed_files.Folder()
    ended = threading.Event()

    def write() -> None:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            for number in range(50):
                try:
                    Path(folder.path, f"log-{number}").touch()
                except FileNotFoundError:
                    break
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    folder.remove()
    writer.join()
    assert ended.is_set() and not os.path.exists(folder.path)


def test_folder_whose_removal_was_cut_off_is_removed_later() -> None:
    folder = testbed_files.Folder()
    os.unlink(os.path.join(folder.path, ".lock"))
    assert testbed_files.sweep() == [], "it may be in creation"
    old = time.time() - testbed_files.LOCKLESS_S - 1
    os.utime(folder.path, (old, old))
    assert testbed_files.sweep() == [folder.path]
    assert not os.path.exists(folder.path)


def test_folder_of_a_running_test_bed_stays() -> None:
    folder = testbed_files.Folder()
    old = time.time() - testbed_files.LOCKLESS_S - 1
    os.utime(folder.path, (old, old))
    assert testbed_files.sweep() == []
    folder.remove()
    assert not os.path.exists(folder.path)
