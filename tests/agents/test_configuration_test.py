"""The web server's own test of staged files, in each of its three forms (docs/decisions/0201)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.host import shadow
from agents.host.changes import Plan
from agents.host.request import Request
from agents.protocol import FileChange
from tests.agents.process import AgentProcess
from tests.agents.sites import Sites, sha256
from tests.support.nginx import NginxInstance

WAYS = {
    "": "in a private mount namespace",
    "without:namespaces": "on a copy of the configuration",
    "without:namespaces+copies": "in place, after the switch",
}


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest, agent_file: Path, tmp_path: Path) -> Iterator[tuple[AgentProcess, str]]:
    with AgentProcess(agent_file, tmp_path / "state", fault=request.param) as agent:
        yield agent, WAYS[request.param]


def spread(sites: Sites, text: str) -> list[FileChange]:
    """A change in two folders: a new site behind a link, its certificate path absolute, an old site removed."""
    root = sites.server.root
    extra = root / "snippets" / "extra.conf"
    directive = "Include" if sites.server.engine == "apache" else "include"
    end = "" if sites.server.engine == "apache" else ";"
    return [
        FileChange(str(extra), "put", text),
        FileChange(str(root / "sites-available" / "new.conf"), "put", f"{directive} {extra}{end}\n"),
        FileChange(str(root / "sites-enabled" / "new.conf"), "link", target="../sites-available/new.conf"),
        FileChange(str(sites.path("shop.conf")), "remove", expect=sha256(sites.text("shop", "old"))),
    ]


def test_staged_files_are_seen_through_links_and_absolute_includes(
    way: tuple[AgentProcess, str], strict_sites: Sites
) -> None:
    sites = strict_sites
    agent, how = way
    files = spread(sites, sites.text("new", "new"))
    result = agent.call("apply", sites.request(*files, probes=[sites.probe("new")]))
    assert result["outcome"] == "applied", result["error"]
    assert how in " ".join(step["output"] for step in result["steps"] if step["name"] == "test")
    assert sites.body("new") == "new"


def test_rejected_staged_file_is_named_by_real_path(way: tuple[AgentProcess, str], strict_sites: Sites) -> None:
    sites = strict_sites
    agent, _ = way
    before = {path: path.read_bytes() for path in sites.server.root.rglob("*.conf")}
    broken = sites.text("new", "new") + "no_such_directive on;\n"
    result = agent.call("apply", sites.request(*spread(sites, broken), probes=[sites.probe("new")]))
    assert result["outcome"] == "rolled_back"
    assert "no_such_directive" in result["error"]
    assert f"{sites.server.root}/snippets/extra.conf" in result["error"]
    assert "/state/" not in result["error"]
    assert {path: path.read_bytes() for path in sites.server.root.rglob("*.conf")} == before
    assert (sites.body("shop"), sites.body("blog")) == ("old", "blog")


def test_removed_file_is_absent_during_test(way: tuple[AgentProcess, str], nginx_sites: Sites) -> None:
    """A new site may take a unique setting, here default_server, of the removed site."""
    sites, (agent, _) = nginx_sites, way
    default = sites.text("old", "old").replace(f":{sites.port};", f":{sites.port} default_server;")
    sites.put("default.conf", default)
    sites.server.reload()
    taken = default.replace("old", "taken")
    files = [
        FileChange(str(sites.path("a-new.conf")), "put", taken),
        FileChange(str(sites.path("default.conf")), "remove"),
    ]
    assert agent.call("apply", sites.request(files[0]))["outcome"] == "rolled_back"
    result = agent.call("apply", sites.request(*files))
    assert result["outcome"] == "applied", result["error"]
    assert sites.body("unknown-name") == "taken"


def test_replaced_files_are_tested_without_staging_tree(tmp_path: Path) -> None:
    """Each draft is mounted over its file. A new or removed name needs a rebuilt folder."""
    root = tmp_path / "etc"
    root.mkdir()
    files = [FileChange(str(root / name), "put", "new") for name in ("a.conf", "b.conf")]
    for file in files:
        Path(file.path).write_text("old")
    new = FileChange(str(root / "c.conf"), "put", "new")

    def binds(*changes: FileChange) -> list[tuple[str, str]]:
        request = {"transaction": "t", "roots": [str(root)], "files": [vars(item) for item in changes], "engines": []}
        return shadow.mounts(str(tmp_path / "shadow"), Plan(Request(request)).changes)

    assert binds(*files) == [(f"{root}/.paddock-t-{number}.new", file.path) for number, file in enumerate(files)]
    assert not (tmp_path / "shadow").exists()
    assert [target for _, target in binds(*files, new)] == [str(tmp_path / "shadow/aside/0"), str(root)]


def test_staging_cost_does_not_grow_with_configuration_tree(tmp_path: Path) -> None:
    """Only the changed folder is rebuilt, with links. Nothing is copied."""
    root = tmp_path / "etc"
    for folder in ("conf.d", "elsewhere/deep"):
        (root / folder).mkdir(parents=True)
        for number in range(50):
            (root / folder / f"{number}.conf").write_text("x" * 100)
    (root / "conf.d" / "relative").symlink_to("../elsewhere/deep/1.conf")
    change = vars(FileChange(str(root / "conf.d" / "7.conf"), "put", "new"))
    request = Request({"transaction": "t", "roots": [str(root)], "files": [change], "engines": []})
    farm = shadow.Farm(str(tmp_path / "shadow"), Plan(request).changes)
    assert [target for _, target in farm.binds] == [str(tmp_path / "shadow/aside/0"), str(root / "conf.d")]
    staged = tmp_path / "shadow" / "staged" / "0"
    assert all(path.is_symlink() for path in staged.iterdir())
    assert os.readlink(staged / "relative") == "../elsewhere/deep/1.conf"
    assert os.readlink(staged / "7.conf").endswith(".new")
    assert not (tmp_path / "shadow" / "staged" / "0" / "deep").exists()


def test_staged_copy_rewrites_whole_paths_only(tmp_path: Path) -> None:
    root = tmp_path / "etc"
    root.mkdir()
    text = f'include {root}/a/*.conf; root {root}x/www; include "{root}/b"; x /prefix{root}/c; y {root};'
    (root / "main.conf").write_text(text)
    (root / "key.pem").write_text("PRIVATE")
    request = Request({"transaction": "t", "roots": [str(root)], "files": [], "engines": []})
    copy = shadow.Copy(str(tmp_path / "copy"), {str(root)}, Plan(request).changes)
    place = f"{tmp_path}/copy/0"
    expected = f'include {place}/a/*.conf; root {root}x/www; include "{place}/b"; x /prefix{root}/c; y {place};'
    assert Path(place, "main.conf").read_text() == expected
    assert os.readlink(f"{place}/key.pem") == f"{root}/key.pem"
    assert copy.real(f"unknown directive in {place}/main.conf:1") == f"unknown directive in {root}/main.conf:1"


@pytest.mark.parametrize("fault", ["", "without:namespaces"])
def test_staged_configuration_is_tested_without_privileges(fault: str, agent_file: Path, server_root: Path) -> None:
    """Agent and web server run as an unprivileged account."""
    server = NginxInstance(server_root)
    server.main_config.write_text(server.main_config.read_text().replace("user root;", ""))
    sites = Sites(server)
    bundle = server_root / "agent.pyz"
    bundle.write_bytes(agent_file.read_bytes())
    subprocess.run(["chown", "-R", "nobody", str(server_root)], check=True)
    state = server_root / "state"
    with AgentProcess(bundle, state, fault=fault, python="/usr/bin/python3", user="nobody") as agent:
        engine = sites.request()["engines"][0]
        assert agent.call("service", {"engine": engine, "action": "start"})["running"] is True
        try:
            broken = agent.call("apply", sites.request(sites.shop("no_such_directive;")))
            assert broken["outcome"] == "rolled_back"
            assert str(sites.path("shop.conf")) in broken["error"]
            result = agent.call("apply", sites.request(sites.shop(sites.text("shop", "new"))))
            assert result["outcome"] == "applied", result["error"]
            assert WAYS[fault] in " ".join(step["output"] for step in result["steps"])
            assert sites.body("shop") == "new"
        finally:
            agent.call("service", {"engine": engine, "action": "stop"})
