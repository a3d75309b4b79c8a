"""Paths outside the allowed roots, or links out of them, are rejected without changes."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from agents.protocol import FileChange
from tests.agents.process import AgentError, AgentProcess
from tests.agents.sites import sha256

NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """root/conf.d is allowed; victim is not, and is what the attacks are after."""
    (tmp_path / "root" / "conf.d").mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "passwd").write_text("root:x:0:0\n")
    return tmp_path


def request(tree: Path, *files: FileChange | dict[str, Any], **changes: Any) -> dict[str, Any]:
    plain = [item if isinstance(item, dict) else dict(vars(item)) for item in files]
    data = {"transaction": "t1", "roots": [str(tree / "root")], "files": plain, "engines": []}
    return {**data, **changes}


def everything(tree: Path) -> dict[str, str]:
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else "folder"
        for path in sorted(tree.rglob("*"))
        if "state" not in path.parts
    }


@pytest.mark.parametrize(
    "path",
    [
        "{victim}/passwd",
        "{root}/../victim/passwd",
        "{root}/conf.d/../../victim/passwd",
        "{root}",
        "{root}/",
        "{root}//x",
        "{root}/./x",
        "conf.d/x",
        "",
        "{root}/a\nb",
        "{root}/a\0b",
        "{root}x/y",
    ],
)
def test_paths_outside_roots_or_not_plain_are_rejected(agent: AgentProcess, tree: Path, path: str) -> None:
    before = everything(tree)
    named = path.format(root=tree / "root", victim=tree / "victim")
    with pytest.raises(AgentError) as refused:
        agent.call("apply", request(tree, FileChange(named, "put", "owned")))
    assert refused.value.code in {"refused", "invalid"}
    assert everything(tree) == before


@pytest.mark.parametrize("roots", [[], None, ["/"], "x", [""], ["relative"], ["/etc/.."]])
def test_roots_that_allow_nothing_or_everything_are_rejected(agent: AgentProcess, tree: Path, roots: Any) -> None:
    with pytest.raises(AgentError) as refused:
        agent.call("apply", request(tree, FileChange(f"{tree}/root/x", "put", "x"), roots=roots))
    assert refused.value.code in {"refused", "invalid"}
    assert not (tree / "root" / "x").exists()


@pytest.mark.parametrize("action", ["put", "remove", "link", "directory"])
def test_symbolic_link_folder_is_not_followed(agent: AgentProcess, tree: Path, action: str) -> None:
    (tree / "root" / "evil").symlink_to(tree / "victim")
    before = everything(tree)
    change = FileChange(f"{tree}/root/evil/passwd", action, "owned", target=f"{tree}/root/x")
    with pytest.raises(AgentError, match="outside the folders that Paddock may use") as refused:
        agent.call("apply", request(tree, change))
    assert refused.value.code == "refused"
    assert everything(tree) == before


def test_symbolic_link_file_is_replaced_and_not_followed(agent: AgentProcess, tree: Path) -> None:
    (tree / "root" / "site.conf").symlink_to(tree / "victim" / "passwd")
    change = FileChange(f"{tree}/root/site.conf", "put", "mine")
    with pytest.raises(AgentError) as refused:
        agent.call("apply", request(tree, FileChange(change.path, "put", "mine", expect=sha256("root:x:0:0\n"))))
    assert refused.value.code == "drift"
    assert agent.call("apply", request(tree, change))["outcome"] == "applied"
    assert not (tree / "root" / "site.conf").is_symlink()
    assert (tree / "victim" / "passwd").read_text() == "root:x:0:0\n"


@pytest.mark.parametrize("target", ["../../victim/passwd", "/etc/passwd", "../../../../../etc/passwd", "/", "..", ""])
def test_link_target_outside_roots_is_rejected(agent: AgentProcess, tree: Path, target: str) -> None:
    with pytest.raises(AgentError) as refused:
        agent.call("apply", request(tree, FileChange(f"{tree}/root/conf.d/x", "link", target=target)))
    assert refused.value.code == "refused"
    assert not (tree / "root" / "conf.d" / "x").is_symlink()


@pytest.mark.parametrize("kind", ["folder", "fifo", "socket"])
def test_non_regular_file_is_not_replaced(agent: AgentProcess, tree: Path, kind: str) -> None:
    path = tree / "root" / "x"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path) if kind == "fifo" else os.mknod(path, 0o140600)
    for action in ("put", "remove"):
        with pytest.raises(AgentError, match="not a file"):
            agent.call("apply", request(tree, FileChange(str(path), action, "x")))


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, -1, "644", 0o10644])
def test_set_user_id_and_unusual_modes_are_rejected(agent: AgentProcess, tree: Path, mode: Any) -> None:
    change = {"path": f"{tree}/root/x", "action": "put", "content": "x", "mode": mode}
    with pytest.raises(AgentError, match="permission bits"):
        agent.call("apply", request(tree, change))
    assert not (tree / "root" / "x").exists()


def test_apply_keeps_files_owned_by_root(agent: AgentProcess, tree: Path) -> None:
    """A user's file that root replaces becomes root's; the rollback restores the user's file."""
    folder = tree / "root" / "user"
    folder.mkdir()
    (folder / "site.conf").write_text("theirs")
    os.chown(folder / "site.conf", 1234, 1234)
    inode = (folder / "site.conf").stat().st_ino
    change = FileChange(str(folder / "site.conf"), "put", "mine")
    probe = {"address": "127.0.0.1", "port": 9, "host": "x", "path": "/", "timeout_s": 0.2, "fresh": True}  # a new site
    assert agent.call("apply", request(tree, change, probes=[probe]))["outcome"] == "rolled_back"
    stat = (folder / "site.conf").stat()
    assert (stat.st_ino, stat.st_uid, (folder / "site.conf").read_text()) == (inode, 1234, "theirs")
    assert agent.call("apply", request(tree, change, transaction="t2"))["outcome"] == "applied"
    assert (folder / "site.conf").stat().st_uid == os.geteuid()


@pytest.mark.parametrize(
    ("owner", "mode", "words"),
    [
        (1234, 0o755, "can be changed by the account 1234"),
        (0, 0o757, "can be changed by every account"),
        (0, 0o1757, "can be changed by every account"),
        (0, 0o775, "can be changed by the group"),
    ],
)
def test_apply_rejects_folder_writable_by_another_account(
    agent: AgentProcess, tree: Path, owner: int, mode: int, words: str
) -> None:
    """Root's web server reads these files: an account that can write the folder would become root."""
    folder = tree / "root" / "conf"
    inner = folder / "sites"
    inner.mkdir(parents=True)
    (inner / "old.conf").write_text("old")
    os.chown(folder, owner, NOBODY.pw_gid)
    folder.chmod(mode)
    changes = {
        "put": FileChange(f"{inner}/new.conf", "put", "x"),
        "link": FileChange(f"{inner}/link.conf", "link", target="old.conf"),
        "remove": FileChange(f"{inner}/old.conf", "remove"),
        "directory": FileChange(f"{folder}/made", "directory"),
    }
    for name, change in changes.items():
        if mode == 0o1757 and name != "directory":
            continue  # nobody may rename what is root's there, so that what lies inside is root's alone
        with pytest.raises(AgentError, match=words) as refused:
            agent.call("apply", request(tree, change, transaction=f"t-{name}"))
        assert refused.value.code == "refused"
        assert f"chown root {folder} && chmod go-w {folder}" in refused.value.message, "the way out"
    assert sorted(path.name for path in folder.rglob("*")) == ["old.conf", "sites"]


def test_apply_accepts_folder_writable_by_empty_group(agent: AgentProcess, tree: Path) -> None:
    """On many hosts /usr/local belongs to root and the empty group `staff`."""
    empty = next(group.gr_gid for group in grp.getgrall() if not group.gr_mem and group.gr_name == "staff")
    folder = tree / "root" / "conf"
    folder.mkdir()
    os.chown(folder, 0, empty)
    folder.chmod(0o2775)
    assert agent.call("apply", request(tree, FileChange(f"{folder}/a.conf", "put", "x")))["outcome"] == "applied"


def test_apply_keeps_owner_of_host_file_when_asked(agent: AgentProcess, tree: Path) -> None:
    path = tree / "root" / "main.conf"
    path.write_text("theirs")
    os.chown(path, 1234, 1235)
    change = FileChange(str(path), "put", "with a line of the panel's", 0o640, keep_owner=True)
    new = FileChange(str(tree / "root" / "new.conf"), "put", "x", keep_owner=True)
    assert agent.call("apply", request(tree, change, new))["outcome"] == "applied"
    stat = path.stat()
    assert (stat.st_uid, stat.st_gid, stat.st_mode & 0o7777) == (1234, 1235, 0o640)
    assert (tree / "root" / "new.conf").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("ident", ["", "../x", "a/b", ".hidden", "a\n", "x" * 81, None, 7])
def test_transaction_id_cannot_leave_state_folder(agent: AgentProcess, tree: Path, ident: Any) -> None:
    with pytest.raises(AgentError, match="transaction id"):
        agent.call("apply", request(tree, transaction=ident))
    with pytest.raises(AgentError, match="transaction id"):
        agent.call("status", {"transaction": ident})


@pytest.mark.parametrize(
    "probe",
    [
        {"address": "127.0.0.1", "port": 80, "host": "a\r\nX: y", "path": "/"},
        {"address": "127.0.0.1", "port": 80, "host": "a", "path": "/ HTTP/1.1\r\nX: y"},
        {"address": "127.0.0.1", "port": 80, "host": "a", "path": "http://x"},
        {"address": "127.0.0.1", "port": "80", "host": "a", "path": "/"},
        {"address": "127.0.0.1", "port": 80, "host": "a", "path": "/", "timeout_s": 1e9},
    ],
)
def test_probe_rejects_header_injection(agent: AgentProcess, tree: Path, probe: dict[str, Any]) -> None:
    with pytest.raises(AgentError) as refused:
        agent.call("apply", request(tree, FileChange(f"{tree}/root/x", "put", "x"), probes=[probe]))
    assert refused.value.code == "invalid"
    assert not (tree / "root" / "x").exists()


@pytest.mark.parametrize("unit", ["", "-H", "nginx;id", "a b", "--now"])
def test_systemd_unit_cannot_become_option(agent: AgentProcess, unit: str) -> None:
    engine = {
        "engine": "nginx",
        "control": "systemd",
        "unit": unit,
        **dict.fromkeys(("binary", "prefix", "main_config", "config_root", "pid_file"), "/x"),
    }
    with pytest.raises(AgentError, match="systemd unit"):
        agent.call("service", {"engine": engine, "action": "stop"})
