"""The agent changes a real OpenLiteSpeed: applied, rejected, rolled back and detected.

These tests run where PADDOCK_OPENLITESPEED names an installation (tests/support/openlitespeed.py), because the
distribution has no package. The last test here covers the server's own configuration test without an installation.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agents.host import processes, safe
from agents.host.engines.openlitespeed import TEMPORARY, HeldFolder, Server
from agents.host.errors import Refusal
from agents.protocol import ApplyRequest, EngineControl, FileChange, Probe, plain
from panel.rendering import render, render_main, render_web_server
from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec, WebServerSpec
from tests.agents.process import AgentProcess
from tests.rendering.servers import write_files
from tests.support.http_client import ask
from tests.support.openlitespeed import OpenLiteSpeedInstance, source
from tests.support.ports import free_port
from tests.support.waiting import eventually


class Hosts:
    """The sites shop and blog on a private OpenLiteSpeed; shop's text is what a test changes."""

    def __init__(self, root: Path) -> None:
        self.root, self.port = root, free_port()
        self.server = OpenLiteSpeedInstance(root / "lsws")
        self.web_server = WebServerSpec(
            "openlitespeed", "vhosts", f"{self.server.root}/conf", f"{self.server.root}/log", "1.9.1"
        )
        main, *more = render_main(
            self.web_server, user="www-data", workers=1, temp_dir=f"{self.server.root}/tmp",
            pid_file=self.server.paths["pid_file"],
        )  # fmt: skip
        specs = [self.spec("shop", "old"), self.spec("blog", "blog")]
        files = [file for spec in specs for file in render(spec, self.web_server)]
        write_files([main, *more, *files, *render_web_server(specs, self.web_server)], root)
        self.config = f"{self.server.root}/conf/vhosts/shop/vhconf.conf"

    def spec(self, name: str, text: str) -> SiteSpec:
        place = Location("", "/", "return", return_code=200, return_value=text)
        return SiteSpec(name, (ServerBlock((Listen(self.port),), (f"{name}.test",), locations=(place,)),))

    @property
    def control(self) -> EngineControl:
        paths = {name: value for name, value in self.server.paths.items() if name != "log_dir"}
        return EngineControl(engine="openlitespeed", **paths)

    def request(self, *files: FileChange) -> dict[str, Any]:
        probes = [Probe("127.0.0.1", self.port, f"{name}.test", "/") for name in ("shop", "blog")]
        request = ApplyRequest(
            transaction=uuid4().hex, roots=[str(self.root)], files=list(files), engines=[self.control],
            probes=probes[:1], guards=probes[1:],
        )  # fmt: skip
        data: dict[str, Any] = plain(request)
        return data

    def changed(self, text: str, more: str = "") -> list[FileChange]:
        files = render(self.spec("shop", text), self.web_server)
        return [FileChange(file.path, "put", file.text + (more if file.path == self.config else "")) for file in files]

    def bodies(self) -> tuple[str, str]:
        shop, blog = (ask(self.port, host=f"{name}.test").text for name in ("shop", "blog"))
        return shop, blog


if source() is not None:

    @pytest.fixture
    def hosts(server_root: Path) -> Iterator[Hosts]:
        made = Hosts(server_root)
        with made.server:
            assert eventually(lambda: made.bodies() == ("old", "blog"))
            yield made

    @pytest.fixture
    def lent() -> Iterator[Path]:
        """The folder below /tmp as the server leaves it: its workers' account has it. No server of the host runs."""
        folder = Path(TEMPORARY)
        file = folder / "lshttpd.pid"
        folder.mkdir(exist_ok=True)
        assert not file.exists(), f"{file} belongs to a server that runs on this machine"
        shutil.chown(folder, "nobody")
        yield folder
        file.unlink(missing_ok=True)

    def test_consecutive_changes_are_live_when_apply_returns(agent: AgentProcess, hosts: Hosts) -> None:
        for number in range(3):
            result = agent.call("apply", hosts.request(*hosts.changed(f"number {number}")))
            assert result["outcome"] == "applied", result
            assert eventually(lambda wanted=f"number {number}": hosts.bodies() == (wanted, "blog"))  # type: ignore[misc]

    @pytest.mark.parametrize("more", ["unknownKey 5\n", "badblock {\n  a 1\n}\n"])
    def test_configuration_that_openlitespeed_only_logs_is_rejected(
        agent: AgentProcess, hosts: Hosts, more: str
    ) -> None:
        result = agent.call("apply", hosts.request(*hosts.changed("new", more)))
        assert result["outcome"] == "rolled_back", result
        assert "Not support" in result["error"]
        assert hosts.config in result["error"]
        assert hosts.bodies() == ("old", "blog")
        assert more not in Path(hosts.config).read_text()

    def test_apply_is_rejected_when_openlitespeed_cannot_start_successor(agent: AgentProcess, hosts: Hosts) -> None:
        (hosts.server.root / "bin" / "litespeed").unlink()
        result = agent.call("apply", hosts.request(*hosts.changed("new")))
        assert result["outcome"] == "rolled_back", result
        assert f"ln -s openlitespeed {hosts.server.root}/bin/litespeed" in result["error"]
        assert hosts.bodies() == ("old", "blog")

    def test_openlitespeed_is_found_by_worker_owned_pid_file(agent: AgentProcess, hosts: Hosts, lent: Path) -> None:
        own = hosts.server.pid
        control = {**plain(hosts.control), "pid_file": str(lent / "lshttpd.pid")}
        others = (os.getpid(), next(iter(processes.children(own or 0))))  # another program, and one of its workers
        for written, found in ((own, own), *((pid, 0) for pid in others)):
            (lent / "lshttpd.pid").write_text(f"{written}\n")
            assert agent.call("service", {"engine": control, "action": "status"})["pid"] == found

    def test_configuration_that_aborts_openlitespeed_test_is_rejected(agent: AgentProcess, hosts: Hosts) -> None:
        result = agent.call("apply", hosts.request(*hosts.changed("new", "errorpage {\n")))
        assert result["outcome"] == "rolled_back", result
        assert hosts.bodies() == ("old", "blog")

    BROKEN = """\
virtualHost broken {
  vhRoot $SERVER_ROOT/www
  configFile conf/broken.conf
}
unknownToThis 7
include paddock.conf
"""

    @pytest.fixture
    def flawed(hosts: Hosts) -> Hosts:
        """The same with a virtual host of the admin's, before the panel's, whose flaws it has logged for years."""
        (hosts.server.root / "conf" / "broken.conf").write_text("docRoot $VH_ROOT\nnoSuchKey 1\nnoSuchKey 1\n")
        main = hosts.server.main_config
        main.write_text(main.read_text().replace("include paddock.conf\n", BROKEN))
        return hosts

    def test_existing_openlitespeed_errors_are_reported_but_not_fatal(agent: AgentProcess, flawed: Hosts) -> None:
        result = agent.call("apply", flawed.request(*flawed.changed("new")))
        assert result["outcome"] == "applied", result
        (tested,) = [step["output"] for step in result["steps"] if step["name"] == "test"]
        assert "The configuration of openlitespeed already had these errors before the change" in tested
        assert tested.count("Not support [nosuchkey 1]") == 2
        assert "Not support [unknowntothis 7]" in tested
        assert eventually(lambda: flawed.bodies() == ("new", "blog"))
        found = agent.call("service", {"engine": plain(flawed.control), "action": "reload"})
        assert "Not support [nosuchkey 1]" in found["output"]

    def test_additional_openlitespeed_error_of_existing_kind_is_rejected(agent: AgentProcess, flawed: Hosts) -> None:
        broken = flawed.server.root / "conf" / "broken.conf"
        more = FileChange(str(broken), "put", "# moves the others down\n" + broken.read_text() + "noSuchKey 1\n")
        result = agent.call("apply", flawed.request(more))
        assert result["outcome"] == "rolled_back", result
        new, _, old = result["error"].partition("The configuration of openlitespeed already had these errors")
        assert (new.count("[nosuchkey 1]"), old.count("[nosuchkey 1]")) == (1, 2)

    def test_openlitespeed_errors_are_compared_with_earlier_run_without_namespaces(
        agent_file: Path, tmp_path: Path, flawed: Hosts
    ) -> None:
        with AgentProcess(agent_file, tmp_path / "state", fault="without:namespaces") as agent:
            result = agent.call("apply", flawed.request(*flawed.changed("new")))
            assert result["outcome"] == "applied", result
            assert "in place" in next(step["output"] for step in result["steps"] if step["output"].startswith("tested"))
            result = agent.call("apply", flawed.request(*flawed.changed("newer", "unknownKey 5\n")))
            assert result["outcome"] == "rolled_back", result
        assert "unknownkey 5" in result["error"].partition("there before")[0]
        assert eventually(lambda: flawed.bodies() == ("new", "blog"))

    def test_apply_is_rejected_when_main_file_does_not_include_sites(agent: AgentProcess, hosts: Hosts) -> None:
        main = hosts.server.main_config
        main.write_text(main.read_text().replace("include paddock.conf\n", ""))
        result = agent.call("apply", hosts.request(*hosts.changed("new")))
        assert result["outcome"] == "rolled_back", result
        assert "Add the line “include paddock.conf” at the end of the file" in result["error"]
        assert hosts.bodies() == ("old", "blog"), "it was not told to read that"

    def test_running_openlitespeed_is_detected(agent: AgentProcess, hosts: Hosts) -> None:
        found = [item for item in agent.call("facts", {})["engines"] if item["engine"] == "openlitespeed"]
        ours = next(item for item in found if item["paths"]["prefix"] == str(hosts.server.root))
        assert (ours["running"], ours["private"], ours["layout"]) == (True, True, "vhosts")
        assert ours["paths"]["pid_file"] == str(hosts.server.pid_file)


def test_openlitespeed_gets_own_pid_file() -> None:
    names = ("engine", "binary", "prefix", "main_config", "config_root", "pid_file", "control", "unit")
    control = dict.fromkeys(names, "")
    assert Server({**control, "pid_file": "/srv/own.pid"}).env() == {"OLS_PID_FILE": "/srv/own.pid"}
    assert Server({**control, "pid_file": "/tmp/lshttpd/lshttpd.pid"}).env() == {}


NOBODY = pwd.getpwnam("nobody")


@pytest.fixture
def lent_folder(server_root: Path) -> Path:
    """A folder that the server gave to its workers' account."""
    folder = server_root / "lshttpd"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    return folder


def test_openlitespeed_worker_folder_belongs_to_agent_while_locked(lent_folder: Path) -> None:
    with HeldFolder(str(lent_folder), frozenset([NOBODY.pw_uid])) as descriptor:
        assert safe.writers(descriptor, str(lent_folder)) == [], "nobody else can put a link there"
    found = lent_folder.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY.pw_uid, NOBODY.pw_gid, 0o755)


def test_openlitespeed_folder_of_foreign_account_is_rejected(lent_folder: Path) -> None:
    with pytest.raises(Refusal, match="can be changed by the account nobody"):
        HeldFolder(str(lent_folder), frozenset()).__enter__()
    assert lent_folder.stat().st_uid == NOBODY.pw_uid


def test_openlitespeed_folder_replaced_by_link_is_rejected(lent_folder: Path) -> None:
    link = lent_folder.with_name("link")
    link.symlink_to(lent_folder)
    with pytest.raises(Refusal, match="is not a folder"):
        HeldFolder(str(link), frozenset([NOBODY.pw_uid])).__enter__()
