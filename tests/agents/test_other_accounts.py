"""Files of another account beside a web server are not trusted, not run and not shown."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agents.host import processes, safe
from agents.host.errors import Refusal
from tests.agents.process import AgentError, AgentProcess
from tests.support.nginx import NginxInstance
from tests.support.waiting import eventually

NOBODY = pwd.getpwnam("nobody")
SECRET = "root:$6$secret:19000:0:99999:7:::\n"


@pytest.fixture
def theirs(server_root: Path) -> Path:
    """A site's folder, which belongs to the site's own account."""
    folder = server_root / "theirs"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    return folder


@pytest.fixture
def secret(server_root: Path) -> Path:
    path = server_root / "shadow"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def test_hard_link_to_unreadable_file_is_not_read(agent: AgentProcess, theirs: Path, secret: Path) -> None:
    os.link(secret, theirs / "access.log")
    asked = {"path": f"{theirs}/access.log", "roots": [str(theirs)]}
    with pytest.raises(AgentError, match="the account nobody can write to the folder"):
        agent.call("tail", asked)
    with pytest.raises(AgentError, match="may not read the file"):
        agent.call("drift", {"files": [{"path": f"{theirs}/access.log", "sha256": ""}], "roots": [str(theirs)]})
    (skipped,) = agent.call("read", {"patterns": [f"{theirs}/access.log"], "roots": [str(theirs)]})["skipped"]
    assert "the agent does not read" in skipped["why"]
    secret.chmod(0o644)
    assert agent.call("tail", asked) == {"lines": [SECRET.strip()]}, "a log that root's server makes is readable"


def test_link_of_another_account_is_not_followed_to_private_file(
    agent: AgentProcess, theirs: Path, secret: Path, server_root: Path
) -> None:
    (theirs / "one.conf").symlink_to(secret)
    (theirs / "logs").symlink_to(server_root)
    roots = [str(server_root)]
    found = agent.call("read", {"patterns": [f"{theirs}/*.conf", f"{theirs}/logs/*"], "roots": roots})
    assert found["files"] == []
    assert [item["path"] for item in found["skipped"]] == [f"{theirs}/one.conf", f"{theirs}/logs/*"]
    for args in ({"path": f"{theirs}/logs/shadow", "roots": roots}, {"path": "/x", "roots": [f"{theirs}/logs"]}):
        with pytest.raises(AgentError, match="symbolic link in a folder that other accounts can change"):
            agent.call("tail", args)


def engine(server: NginxInstance, **changes: Any) -> dict[str, Any]:
    paths = {name: value for name, value in server.paths.items() if name != "log_dir"}
    return {"engine": "nginx", **paths, **changes}


@pytest.mark.parametrize("which", ["binary", "main_config", "config_root", "prefix"])
def test_program_in_folder_writable_by_another_account_is_not_started(
    agent: AgentProcess, theirs: Path, server_root: Path, which: str
) -> None:
    server = NginxInstance(server_root)
    place = theirs / "place"
    if which == "binary":
        shutil.copy(server.binary, place)
    elif which == "main_config":
        shutil.copy(server.main_config, place)
    else:
        place.mkdir()
    with pytest.raises(AgentError, match=f"{theirs}, which can be changed by the account nobody"):
        agent.call("service", {"engine": engine(server, **{which: str(place)}), "action": "start"})
    assert server.pid is None


def test_pid_file_of_another_account_is_ignored(agent: AgentProcess, theirs: Path, server_root: Path) -> None:
    with NginxInstance(server_root) as server:
        (theirs / "server.pid").write_text(f"{server.pid}\n")
        control = engine(server, pid_file=str(theirs / "server.pid"))
        assert agent.call("service", {"engine": control, "action": "status"})["pid"] == 0
        agent.call("service", {"engine": control, "action": "stop"})
        assert server.pid is not None
        (theirs / "server.pid").unlink()
        os.mkfifo(theirs / "server.pid")
        began = time.monotonic()
        assert agent.call("service", {"engine": control, "action": "status"})["pid"] == 0
        agent.call("sample", {"trees": {"a": [f"{theirs}/server.pid"]}, "seconds": 0.1})
        assert time.monotonic() - began < 10, "a FIFO holds nobody up"


def test_process_of_another_account_is_not_managed(agent: AgentProcess, theirs: Path, server_root: Path) -> None:
    """The process claims root's configuration through a link that its owner can change later."""
    own = server_root / "own"
    own.mkdir()
    (own / "nginx.conf").write_text("events {}\n")
    (theirs / "conf").symlink_to(own)
    shutil.copy("/bin/dash", theirs / "nginx")
    for user, config in ((NOBODY.pw_uid, own), (NOBODY.pw_uid, theirs / "conf"), (0, theirs / "conf")):
        argv = [str(theirs / "nginx"), "-s", "--", "-p", str(own), "-c", f"{config}/nginx.conf"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, user=user, cwd="/") as process:
            try:
                assert eventually(lambda pid=process.pid: processes.program(pid) == "nginx")
                found = [item["paths"]["main_config"] for item in agent.call("facts")["engines"]]
                assert f"{config}/nginx.conf" not in found, argv
            finally:
                process.send_signal(signal.SIGKILL)


def test_path_is_followed_only_through_links_owned_by_root(server_root: Path, theirs: Path) -> None:
    (server_root / "real").mkdir()
    (server_root / "link").symlink_to("real")
    assert safe.true_path(f"{server_root}/link") == f"{server_root}/real"
    (theirs / "real").mkdir()
    (server_root / "out").symlink_to(theirs / "real")
    with pytest.raises(Refusal, match=f"{theirs}, which can be changed by the account nobody"):
        safe.true_path(f"{server_root}/out")
    with pytest.raises(FileNotFoundError):
        safe.true_path(f"{server_root}/none")
    (server_root / "round").symlink_to("round")
    with pytest.raises(Refusal, match="too many symbolic links"):
        safe.true_path(f"{server_root}/round")


def test_tree_removal_does_not_follow_links(server_root: Path, secret: Path) -> None:
    tree = server_root / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "file").write_text("x")
    (tree / "a" / "link").symlink_to(server_root)
    (tree / "a" / "b" / "secret").symlink_to(secret)
    os.mkfifo(tree / "fifo")
    folder = os.open(server_root, os.O_RDONLY)
    try:
        safe.remove_tree("tree", folder)
        safe.remove_tree("tree", folder)
    finally:
        os.close(folder)
    assert not tree.exists()
    assert secret.read_text() == SECRET
