"""A live site whose content is published."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from panel.hosts.models import Engine, Host, HostStatus, WebServer
from panel.publishing.execution import publication_execute
from panel.publishing.models import Publication
from panel.publishing.services import Choices, archive_publish
from panel.remote import pool
from panel.websites.models import Site
from tests.deployments.conftest import *  # noqa: F403 - the host's fixtures
from tests.deployments.real_host import Machine
from tests.support import archives
from tests.support.nginx import NginxInstance
from tests.support.sshd import SshServer, bound


def zipped(files: dict[str, str], *, executable: str = "") -> io.BytesIO:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o100755 if name == executable else 0o100644) << 16
            archive.writestr(info, text)
    found.seek(0)
    return found


def tarred(files: dict[str, str], links: dict[str, str] | None = None, mode: str = "w:gz") -> io.BytesIO:
    return io.BytesIO(archives.tar(files, links, mode))


class Published:
    """`shop` is live; its folder has the page of the machine."""

    def __init__(self, machine: Machine, web_server: WebServer) -> None:
        self.machine = machine
        self.web_server = web_server
        self.site: Site = machine.site("shop", web_server)
        self.folder: Path = machine.root / "www" / "shop"
        self.store = machine.root / "www" / ".paddock-content.shop"
        machine.deploy(self.site)

    def publish(self, files: dict[str, str], **choices: Any) -> Publication:
        return self.run(self.request(zipped(files), **choices))

    def request(self, archive: io.BytesIO, **choices: Any) -> Publication:
        actor = choices.pop("actor", self.machine.people.owner)
        given = Choices(**choices)
        return archive_publish(actor=actor, site=self.site, archive=archive, filename="shop.zip", choices=given)

    def run(self, publication: Publication) -> Publication:
        publication_execute(publication.uuid)
        return Publication.objects.get(pk=publication.pk)

    def get(self, path: str = "/") -> str:
        return self.machine.get("shop", path).text.strip()


@pytest.fixture
def shop(placed: tuple[Machine, WebServer]) -> Published:
    return Published(*placed)


@pytest.fixture
def second(shop: Published, server_root: Path) -> Iterator[tuple[WebServer, Path]]:
    """Another host: its sshd, and nginx started by its agent, find another folder in the place of the site folder."""
    root = shop.machine.root
    www = server_root / "second-www"
    www.mkdir()
    server = NginxInstance(server_root / "second")
    with SshServer(server_root / "second-sshd", inside=bound(www, root / "www")) as sshd:
        host = Host.objects.create(
            name="web-2",
            address="127.0.0.1",
            port=sshd.port,
            username=sshd.username,
            private_key=sshd.private_key,
            host_key=sshd.host_key,
            status=HostStatus.READY,
            site_roots=[str(root / "www")],
        )
        yield WebServer.objects.create(host=host, engine=Engine.NGINX, paths=server.paths, layout="sites"), www
        server.stop()
        pool.close()
