"""ACME challenge files: readable by all accounts, with names that cannot leave their folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.agents.process import AgentError, AgentProcess

TOKEN = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
CONTENT = f"{TOKEN}.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI"


def put(agent: AgentProcess, root: Path, files: object, folder: str = "paddock/_acme-challenge") -> object:
    return agent.call("challenge_put", {"folder": f"{root}/{folder}", "roots": [str(root)], "files": files})


def remove(agent: AgentProcess, root: Path, names: object, folder: str = "paddock/_acme-challenge") -> object:
    return agent.call("challenge_remove", {"folder": f"{root}/{folder}", "roots": [str(root)], "names": names})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "etc"
    found.mkdir(0o755)
    return found


def test_challenge_is_written_for_all_to_read_and_removed(agent: AgentProcess, root: Path) -> None:
    assert put(agent, root, {TOKEN: CONTENT}) == {"files": 1}
    folder = root / "paddock" / "_acme-challenge"
    assert (folder / TOKEN).read_text() == CONTENT
    assert (folder / TOKEN).stat().st_mode & 0o777 == 0o644
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o755
    assert put(agent, root, {TOKEN: CONTENT[:-1]}) == {"files": 1}
    assert (folder / TOKEN).read_text() == CONTENT[:-1]
    assert remove(agent, root, [TOKEN, "other"]) == {"files": 1}
    assert list(folder.iterdir()) == []
    assert remove(agent, root, [TOKEN]) == {"files": 0}


def test_challenge_removal_succeeds_without_the_folder(agent: AgentProcess, root: Path) -> None:
    assert remove(agent, root, [TOKEN]) == {"files": 0}
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["../x", "a/b", ".", "..", "", "a.b", "é", "a\n", "a" * 256, "a b", "%2e", ".htaccess"]
)
def test_challenge_name_is_base64url(agent: AgentProcess, root: Path, name: str) -> None:
    with pytest.raises(AgentError):
        put(agent, root, {name: CONTENT})
    with pytest.raises(AgentError):
        remove(agent, root, [name])
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("content", ["", "a" * 256, "<?php", "a.b.c", "a\n", None, 1])
def test_challenge_content_is_a_key_authorization(agent: AgentProcess, root: Path, content: object) -> None:
    with pytest.raises(AgentError):
        put(agent, root, {TOKEN: content})
    assert list(root.iterdir()) == []


def test_challenge_files_are_bounded(agent: AgentProcess, root: Path) -> None:
    for files in ({}, {f"t{n}": CONTENT for n in range(101)}, [TOKEN]):
        with pytest.raises(AgentError):
            put(agent, root, files)
    put(agent, root, {TOKEN: CONTENT})
    folder = root / "paddock" / "_acme-challenge"
    for number in range(5000):
        (folder / f"t{number}").touch()
    with pytest.raises(AgentError, match="5000"):
        put(agent, root, {"one-more": CONTENT})


def test_challenge_files_of_last_week_are_removed_by_the_next(agent: AgentProcess, root: Path) -> None:
    put(agent, root, {"old": CONTENT, "new": CONTENT})
    folder = root / "paddock" / "_acme-challenge"
    before = time.time() - 8 * 86400
    os.utime(folder / "old", (before, before))
    put(agent, root, {TOKEN: CONTENT})
    assert {path.name for path in folder.iterdir()} == {"new", TOKEN}


def test_challenge_follows_no_link(agent: AgentProcess, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").write_text("mine")
    folder = root / "paddock" / "_acme-challenge"
    put(agent, root, {TOKEN: CONTENT})
    (folder / "link").symlink_to(other / "kept")
    put(agent, root, {"link": CONTENT})
    assert (other / "kept").read_text() == "mine"
    assert not (folder / "link").is_symlink()
    (folder / "link").unlink()
    (folder / TOKEN).unlink()
    folder.rmdir()
    folder.symlink_to(other)
    with pytest.raises(AgentError):
        put(agent, root, {TOKEN: CONTENT})
    with pytest.raises(AgentError):
        remove(agent, root, ["kept"])
    assert [path.name for path in other.iterdir()] == ["kept"]


def test_challenge_folder_of_another_account_is_refused(agent: AgentProcess, root: Path) -> None:
    folder = root / "paddock" / "_acme-challenge"
    folder.mkdir(parents=True)
    os.chown(folder, 33, 33)
    with pytest.raises(AgentError, match="can be changed by"):
        put(agent, root, {TOKEN: CONTENT})
    assert list(folder.iterdir()) == []
    os.chown(folder, 0, 0)
    folder.chmod(0o777)
    with pytest.raises(AgentError, match="can be changed by"):
        put(agent, root, {TOKEN: CONTENT})


def test_challenge_folder_outside_the_roots_is_refused(agent: AgentProcess, root: Path, tmp_path: Path) -> None:
    with pytest.raises(AgentError):
        put(agent, root, {TOKEN: CONTENT}, folder="../elsewhere")
    assert not (tmp_path / "elsewhere").exists()
