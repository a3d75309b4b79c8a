"""Content on every host of a site, or on none: a site on nginx of one host, and its copy on nginx of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.core.jobs import JobStatus
from panel.hosts.models import Engine, WebServer
from panel.placements.models import PlacedSite, Placement
from panel.publishing.execution import _HostWork
from panel.publishing.models import Publication
from panel.remote.client import Message
from panel.remote.errors import ConnectionLost
from panel.websites.models import Site
from tests.publishing.conftest import Published
from tests.support.http_client import ask
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)


class Copied:
    """`shop` and its copy, each with its own files behind the same path, since their hosts see different folders."""

    def __init__(self, shop: Published, web_server: WebServer, www: Path) -> None:
        self.shop, self.folder, self.port = shop, www / "shop", free_port()
        self.folder.mkdir()
        (self.folder / "index.html").write_text("before")
        self.copy = shop.machine.site("copy", web_server, port=self.port, root=str(shop.folder))
        (shop.machine.root / "www" / "copy" / "index.html").unlink()
        (shop.machine.root / "www" / "copy").rmdir()
        shop.machine.deploy(self.copy)
        placement = Placement.objects.create(site=shop.site, tags=["web"])
        PlacedSite.objects.create(placement=placement, site=self.copy, site_version=1, placement_version=1)

    def responses(self) -> tuple[str, str]:
        return self.shop.get(), ask(self.port, host="copy.example").text.strip()

    def states(self, publication: Publication) -> dict[str, str]:
        return {target["host"]: target["state"] for target in publication.targets}


@pytest.fixture
def copied(shop: Published, second: tuple[WebServer, Path]) -> Copied:
    return Copied(shop, *second)


def test_all_hosts_get_the_same_files(copied: Copied) -> None:
    done = copied.shop.publish({"index.html": "one"}, replace=True)
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert copied.states(done) == {copied.shop.machine.host.name: "published", "web-2": "published"}
    assert eventually(lambda: copied.responses() == ("one", "one"))


def test_no_host_is_changed_while_one_cannot_take_the_files(copied: Copied) -> None:
    assert copied.shop.publish({"index.html": "one"}, replace=True).error == ""
    (copied.folder / "by-hand.txt").write_text("x")
    done = copied.shop.publish({"index.html": "two"})
    assert done.status == JobStatus.FAILED and "web-2: " in done.error and "by-hand.txt" in done.error
    assert copied.responses() == ("one", "one")
    assert copied.states(done) == {copied.shop.machine.host.name: "prepared", "web-2": "failed"}


def test_every_host_gets_its_former_files_when_one_site_responds_worse(copied: Copied) -> None:
    assert copied.shop.publish({"index.html": "one"}, replace=True).error == ""
    Site.objects.filter(pk=copied.copy.pk).update(health_path="/", health_text="one")
    done = copied.shop.publish({"index.html": "two"})
    assert done.status == JobStatus.FAILED and done.error.startswith("Nothing was published. web-2: ")
    assert eventually(lambda: copied.responses() == ("one", "one"))
    assert copied.states(done) == {copied.shop.machine.host.name: "returned", "web-2": "failed"}


def test_host_that_could_not_exchange_its_folders_is_named(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    call = _HostWork._call

    def renamed(self: _HostWork, action: str, **values: object) -> Message:
        found = call(self, action, **values)
        is_renamed = action == "switch" and self.place.host.name == "web-2"
        return found | {"atomic": False} if is_renamed else found

    monkeypatch.setattr(_HostWork, "_call", renamed)
    done = copied.shop.publish({"index.html": "one"}, replace=True)
    assert done.status == JobStatus.SUCCEEDED
    words = {target["host"]: target["words"] for target in done.targets}
    assert words[copied.shop.machine.host.name] == "" and "was missing for a moment" in words["web-2"]


@pytest.mark.parametrize("is_gone", [False, True])
def test_response_that_is_lost_during_the_exchange_leaves_no_host_with_other_files(
    copied: Copied, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    """The second host exchanges its folders, but its response is lost; afterwards it responds again, or never."""
    assert copied.shop.publish({"index.html": "one"}, replace=True).error == ""
    call = _HostWork._call

    def lost(self: _HostWork, action: str, **values: object) -> Message:
        is_second = self.place.host.name == "web-2"
        if is_second and is_gone and action == "return":
            raise ConnectionLost("web-2", "content")
        found = call(self, action, **values)
        if is_second and action == "switch":
            raise ConnectionLost("web-2", "content")
        return found

    monkeypatch.setattr(_HostWork, "_call", lost)
    done = copied.shop.publish({"index.html": "two"})
    assert done.status == JobStatus.FAILED
    assert eventually(lambda: copied.responses() == ("one", "two" if is_gone else "one"))
    assert done.error.startswith("Paddock could not restore the former files on web-2") is is_gone
    monkeypatch.undo()
    if is_gone:
        assert copied.shop.publish({"index.html": "three"}, replace=True).error == ""
        assert eventually(lambda: copied.responses() == ("three", "three"))
