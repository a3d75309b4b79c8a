from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from panel.benchmarks.models import Scenario
from panel.benchmarks.runs import measuring
from panel.comparisons import execution, services
from panel.comparisons.models import Comparison, Contender
from panel.core.claims import Attempt
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine, WebServer
from panel.remote import pool
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.sshd import SshServer
from tests.support.waiting import is_running


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at here is not the figures: no time without load around the rounds."""
    monkeypatch.setattr(measuring, "IDLE_S", 0.0)
    monkeypatch.setattr(services, "REPLAY_WARMUP_S", 0)


class LiveSites:
    """`shop` stands on nginx; Apache and gallop are installed on the same machine."""

    def __init__(self, machine: Machine, web_servers: dict[str, WebServer]) -> None:
        self.machine = machine
        self.web_servers = web_servers
        self.running = {"nginx"}  # which servers are to run whenever no comparison does
        self.site: Site = machine.site("shop", web_servers["nginx"])
        self.block = self.site.blocks.get()
        self.log = machine.root / "log" / "shop.log"
        self.block.access_log = str(self.log)
        self.block.save()
        machine.deploy(self.site)

    @property
    def others(self) -> list[WebServer]:
        return [web_server for web_server in self.web_servers.values() if web_server != self.site.web_server]

    def queued(self, **values: Any) -> Comparison:
        owner = self.machine.people.owner
        return services.comparison_create(actor=owner, site=self.site, web_servers=self.others, load=load(**values))

    def tried(self, **values: Any) -> Comparison:
        """Queued, carried out, and as it is then."""
        return carried_out(self.queued(**values))

    def switched(self, contender: Contender) -> None:
        """The site is given to that server, in one step."""
        deployment = services.comparison_switch(actor=self.machine.people.owner, contender=contender)
        assert deployment_execute(deployment.uuid) == Attempt.DONE
        deployment.refresh_from_db()
        assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
        for row in (self.site, self.block):
            row.refresh_from_db()

    def files(self) -> set[str]:
        """What copies left on the machine. An OpenLiteSpeed that is not built by its build.sh writes what it has read
        beside each file (TEST_OUTPUT_PLAIN_CONF)."""
        found = (path for path in self.machine.root.rglob("*") if path.is_file() and path.name != "vhconf.conf.txt")
        return {str(path) for path in found if "-copy" in str(path.relative_to(self.machine.root))}

    def assert_as_before(self) -> None:
        """One site, its own; nothing of any copy is left, and visitors are served. No server runs that did not."""
        assert list(Site.objects.values_list("name", flat=True)) == ["shop"]
        assert self.files() == set()
        assert self.machine.answers("shop", "this is shop")
        self.assert_running()

    def found_running(self) -> set[str]:
        return {
            name for name, web_server in self.web_servers.items() if is_running(web_server.engine, web_server.paths)
        }

    def assert_running(self) -> None:
        """By their processes, and by what the panel says."""
        assert self.found_running() == self.running
        noted = set(WebServer.objects.filter(is_running=True).values_list("engine", flat=True))
        assert noted <= self.running, "a comparison's own starts are not noted, and its stops are"


def load(**values: Any) -> dict[str, Any]:
    arguments = {"concurrency": 2, "requests": 50}
    given = {"name": "Short", "tool": "ab", "arguments": arguments, "paths": ["/"], "rounds": 1, "warmup_s": 0}
    return services.load_of(Scenario(**(given | values)))


def carried_out(comparison: Comparison) -> Comparison:
    execution.comparison_execute(comparison.uuid)
    comparison.refresh_from_db()
    return comparison


def before_comparing(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """`happens` while a comparison is under way: its copies stand, nothing was measured yet."""
    real = execution.compare

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        happens()
        return real(*arguments, **named)

    monkeypatch.setattr(execution, "compare", meanwhile)


def logged(live_sites: LiveSites, targets: list[str], *, queries: bool = False, method: str = "GET") -> None:
    """Visitors' requests in the site's own access log, answered with success."""
    with live_sites.log.open("a") as sink:
        for number, target in enumerate(targets):
            query = f"?secret={number}" if queries else ""
            sink.write(
                f'192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] "{method} {target}{query} HTTP/1.1" 200 5 "-" "x"\n'
            )


@contextmanager
def standing(root: Path, sshd: SshServer | None = None) -> Iterator[LiveSites]:
    with NginxInstance(root) as nginx:
        machine = Machine(root, sshd)
        apache, gallop = ApacheInstance(root / "apache"), GallopInstance(root / "gallop")
        servers = {Engine.NGINX: nginx, Engine.APACHE: apache, Engine.NATIVE: gallop}
        yield LiveSites(
            machine, {engine.value: machine.web_server(server, engine) for engine, server in servers.items()}
        )
        apache.stop()
        gallop.stop()
    pool.close()


@pytest.fixture
def live_sites(transactional_db: None, server_root: Path, settings: Settings) -> Iterator[LiveSites]:
    settings.LOCAL_HOST_ROOT = server_root / "agent-home"
    with standing(server_root) as found:
        yield found


@pytest.fixture
def remote(transactional_db: None, server_root: Path) -> Iterator[tuple[LiveSites, SshServer]]:
    """The same behind a real sshd."""
    with SshServer(server_root / "sshd") as sshd, standing(server_root, sshd) as found:
        yield found, sshd
