"""A site on five hosts: each has its own network, processes and mounts, a real sshd, and nginx on one small disk."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from panel.hosts.models import Engine, Host, HostStatus, WebServer
from panel.hosts.targets import target_for
from panel.placements.models import PlacedSite, Placement
from panel.publishing.execution import publication_execute
from panel.publishing.models import Publication
from panel.publishing.services import Choices, archive_publish
from panel.remote import pool
from panel.remote.errors import RemoteError
from tests.deployments.real_host import Machine
from tests.publishing.conftest import zipped
from tests.support import namespace_hosts
from tests.support.disk import Disk
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.process import tool
from tests.support.waiting import eventually

HOSTS = 5
PAGE_LINES = 3000
CLONE_NEWNET = 0x40000000


def content(version: str) -> dict[str, str]:
    """Files of one version: a name, and a page that is long enough to be caught half-written."""
    return {"version.txt": version, "page.txt": f"{version}\n" * PAGE_LINES}


class Watch(threading.Thread):
    """Requests from inside a host's network, all the time: `seen` has what its web server served."""

    def __init__(self, pid: int, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self.pid, self.port, self.name_asked = pid, port, name
        self.seen: list[str] = []  # versions in the order in which they were first served
        self.faults: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        with open(f"/proc/{self.pid}/ns/net") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET):
                self.faults.append(os.strerror(ctypes.get_errno()))
                return
        while not self.over.wait(0.01):
            self._look()

    def _look(self) -> None:
        begun = time.monotonic()
        first, page, last = (self._ask(path) for path in ("/version.txt", "/page.txt", "/version.txt"))
        if first != last or time.monotonic() - begun > 1:
            return  # exchanged between these requests
        if page != content(first)["page.txt"].strip():
            self.faults.append(f"{first}: {page[:80]}")
        if first not in self.seen[-1:]:
            self.seen.append(first)

    def _ask(self, path: str) -> str:
        try:
            answer = ask(self.port, path, host=self.name_asked)
        except OSError as error:
            return f"no response: {error}"
        return answer.text.strip() if answer.status == 200 else f"status {answer.status}"


class Node:
    """One host with its site. `disk` holds the folder that is published to, and nothing else."""

    def __init__(
        self, machine: Machine, root: Path, number: int, switch: namespace_hosts.Switch, ended: ExitStack
    ) -> None:
        self.name = f"node-{number}"
        self.disk = Disk(root / f"disk-{number}", "tmpfs", image=root / "none", size_kb=1024, inodes=300)
        ended.enter_context(self.disk)
        self.namespace = ended.enter_context(namespace_hosts.Machine(root / f"machine-{number}", switch))
        self._inside("mount", "--bind", str(self.disk.path), str(root / "www"))
        self.server = NginxInstance(root / f"nginx-{number}")
        sshd = self.namespace.sshd
        self.host = Host.objects.create(
            name=self.name,
            address=self.namespace.address,
            port=sshd.port,
            username=sshd.username,
            private_key=sshd.private_key,
            host_key=sshd.host_key,
            status=HostStatus.READY,
            site_roots=[str(root / "www")],
        )
        web_server = WebServer.objects.create(
            host=self.host, engine=Engine.NGINX, paths=self.server.paths, layout="sites"
        )
        for name, text in content("found").items():
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text)
        name = "shop" if number == 1 else f"shop-{number}"
        self.site = machine.site(name, web_server, root=str(root / "www" / "shop"))
        machine.deploy(self.site)
        self.watch = Watch(self.namespace.first_process, machine.port, f"{name}.example")
        ended.callback(self.watch.over.set)

    @property
    def folder(self) -> Path:
        return self.disk.path / "shop"

    def _inside(self, *command: str) -> None:
        enter = [tool("nsenter"), "--target", f"{self.namespace.first_process}", "--mount", "--"]
        subprocess.run([*enter, *command], check=True)

    def cut(self) -> None:
        """Unplug the host: nothing is refused or closed, no packet arrives any more."""
        namespace_hosts.ip("link", "set", self.namespace.port, "down")

    def plug_in(self) -> None:
        """Plug the host in again, and wait until the panel reaches it."""
        namespace_hosts.ip("link", "set", self.namespace.port, "up")
        assert eventually(self._responds)

    def _responds(self) -> bool:
        try:
            with pool.session(target_for(self.host)) as agent:
                return bool(agent.call("hello", timeout=5.0))
        except RemoteError:
            return False


class Fleet:
    """`nodes` have the site `shop` and its copies; the version `one` is published on all of them."""

    def __init__(self, machine: Machine, nodes: list[Node]) -> None:
        self.machine, self.nodes, self.site = machine, nodes, nodes[0].site
        placement = Placement.objects.create(site=self.site, tags=["web"])
        for node in nodes[1:]:
            PlacedSite.objects.create(placement=placement, site=node.site, site_version=1, placement_version=1)
        assert self.publish("one", replace=True).error == ""
        for node in nodes:
            node.watch.start()
        assert eventually(lambda: all(node.watch.seen == ["one"] for node in nodes)), self.seen()

    def node(self, number: int) -> Node:
        return self.nodes[number - 1]

    def request(self, version: str, *, replace: bool = False) -> Publication:
        archive, owner = zipped(content(version)), self.machine.people.owner
        choices = Choices(replace=replace)
        return archive_publish(actor=owner, site=self.site, archive=archive, filename="shop.zip", choices=choices)

    def run(self, publication: Publication) -> Publication:
        publication_execute(publication.uuid)
        return Publication.objects.get(pk=publication.pk)

    def publish(self, version: str, *, replace: bool = False) -> Publication:
        return self.run(self.request(version, replace=replace))

    def seen(self) -> list[list[str]]:
        """Versions that each host served, in order. No host ever served anything else, or parts of two versions."""
        for node in self.nodes:
            assert node.watch.faults == [], node.name
        return [list(node.watch.seen) for node in self.nodes]

    def serve(self, version: str) -> bool:
        """Whether every host comes to serve this version."""
        return eventually(lambda: all(versions[-1] == version for versions in self.seen()))


@contextmanager
def five_hosts(root: Path) -> Iterator[Fleet]:
    with ExitStack() as ended:
        (root / "www").mkdir()
        switch = ended.enter_context(namespace_hosts.Switch())
        machine = Machine(root)
        ended.callback(pool.close)
        yield Fleet(machine, [Node(machine, root, number, switch, ended) for number in range(1, HOSTS + 1)])
