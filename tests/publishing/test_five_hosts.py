"""A publication to five hosts during which one is cut off and the disk of another is full."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest import MonkeyPatch

from panel.core.jobs import JobStatus
from panel.publishing import execution
from panel.publishing.execution import _HostWork
from panel.publishing.models import Publication
from panel.remote import links
from panel.remote.client import Message
from panel.remote.errors import ConnectionLost
from tests.api.caller import caller_of
from tests.publishing.five_hosts import Fleet, five_hosts
from tests.support.cast import signed_in
from tests.support.waiting import eventually

CONTENT = "/content/site/shop"
OLD, NEW = ("release", 1), ("release", 2)
UNKNOWN = ("unknown", None)


@pytest.fixture
def fleet(transactional_db: None, server_root: Path, monkeypatch: MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(links, "SFTP_TIMEOUT_S", 5.0)
    monkeypatch.setattr(execution, "ASK_TIMEOUT_S", 5.0)
    with five_hosts(server_root) as found:
        yield found


def before(monkeypatch: MonkeyPatch, action: str, happens: dict[str, Callable[[], None]]) -> None:
    """Something happens on these hosts when the publication has come to this request there."""
    call = _HostWork._call

    def called(self: _HostWork, asked: str, **values: object) -> Message:
        if asked == action and self.place.host.name in happens:
            happens.pop(self.place.host.name)()
        return call(self, asked, **values)

    monkeypatch.setattr(_HostWork, "_call", called)


def served(publication: Publication) -> list[tuple[str, int | None]]:
    """What each host serves, by the record."""
    return [(target["serves"], target["release"]) for target in publication.targets]


def again(fleet: Fleet, number: int) -> Publication:
    """A click on "Publish again", and the worker that carries it out."""
    response = signed_in(fleet.machine.people.owner).post(f"{CONTENT}/releases/{number}/publish")
    assert response.status_code == 302
    return fleet.run(Publication.objects.latest("pk"))


def page(fleet: Fleet, path: str = CONTENT) -> str:
    return " ".join(signed_in(fleet.machine.people.owner).get(path).content.decode().split())


def test_hosts_keep_their_files_when_one_is_cut_off_and_the_disk_of_another_is_full(
    fleet: Fleet, monkeypatch: MonkeyPatch
) -> None:
    fleet.node(4).disk.fill(0)
    stage = _HostWork.stage

    def cut_off(self: _HostWork, *given: object) -> None:
        if self.place.host.name == "node-3":
            fleet.node(3).cut()
        stage(self, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(_HostWork, "stage", cut_off)
        done = fleet.publish("two")
    assert done.status == JobStatus.FAILED and done.error.startswith("Nothing was published. node-3: ")
    assert "node-4: " in done.error and "the disk has no space" in done.error
    states = [target["state"] for target in done.targets]
    assert states == ["prepared", "prepared", "failed", "failed", "prepared"]
    assert served(done) == [OLD, OLD, UNKNOWN, OLD, OLD]
    assert fleet.seen() == [["one"]] * 5

    fleet.node(3).plug_in()
    fleet.node(4).disk.empty()
    done = again(fleet, 2)
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert served(done) == [NEW] * 5
    assert fleet.serve("two") and fleet.seen() == [["one", "two"]] * 5
    shown = caller_of(fleet.machine.people.owner).get(f"publications/{done.uuid}/").json()["targets"]
    assert [(target["serves"], target["release"]) for target in shown] == [NEW] * 5
    assert page(fleet, f"/content/{done.uuid}").count('data-label="Served at the end"> Release 2 </td>') == 5


@pytest.mark.parametrize(("number", "version"), [(1, "one"), (2, "two")])
def test_host_cut_off_after_its_exchange_is_named_until_one_action_makes_all_hosts_equal(
    fleet: Fleet, monkeypatch: MonkeyPatch, number: int, version: str
) -> None:
    call = _HostWork._call

    def cut_off(self: _HostWork, action: str, **values: object) -> Message:
        found = call(self, action, **values)
        if action == "switch" and self.place.host.name == "node-3":
            fleet.node(3).cut()
            raise ConnectionLost("node-3", "content")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(_HostWork, "_call", cut_off)
        done = fleet.publish("two")
    assert done.status == JobStatus.FAILED
    assert "Paddock could not restore the former files on node-3" in done.error
    assert "all other hosts serve their former files" in done.error
    assert served(done) == [OLD, OLD, UNKNOWN, OLD, OLD]
    assert eventually(lambda: fleet.seen()[2] == ["one", "two"]), "this host still has the new files"
    assert fleet.seen()[3:] == [["one"], ["one"]], "hosts after it are not exchanged any more"
    assert eventually(lambda: [versions[-1] for versions in fleet.seen()[:2]] == ["one", "one"])
    text = page(fleet)
    assert re.search(r"one host did not serve release 1: ?</p> <ul> <li>node-3: ?Unknown: the host did not", text), text
    assert f"{CONTENT}/releases/1/publish" in text and f"{CONTENT}/releases/2/publish" in text

    fleet.node(3).plug_in()
    done = again(fleet, number)
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert served(done) == [("release", number)] * 5
    assert fleet.serve(version)
    assert "At the end of the last publication" not in page(fleet)


def test_disk_that_fills_up_before_the_exchange_leaves_all_hosts_with_the_former_files(
    fleet: Fleet, monkeypatch: MonkeyPatch
) -> None:
    """One host has no inode left once its new files lie beside the old ones, and a later host is cut off."""
    disk = fleet.node(3).disk
    with monkeypatch.context() as patch:
        before(patch, "switch", {"node-3": lambda: disk.fill_inodes(0), "node-4": fleet.node(4).cut})
        done = fleet.publish("two")
    assert done.status == JobStatus.FAILED and "node-3: " in done.error and "No space left on device" in done.error
    assert served(done) == [OLD] * 5, "the later host was not asked to exchange its folders"
    assert fleet.serve("one")
    assert fleet.seen()[3:] == [["one"], ["one"]]
    disk.empty()
    done = again(fleet, 2)
    assert done.error == "" and served(done) == [NEW] * 5
    assert fleet.serve("two")


class Killed(BaseException):
    """The worker's process dies here."""


def test_publication_of_dead_worker_leaves_no_host_with_new_files_when_it_cannot_continue(
    fleet: Fleet, monkeypatch: MonkeyPatch
) -> None:
    """The worker dies after two exchanges; the next one finds a host cut off before it has prepared it again."""

    def die() -> None:
        raise Killed

    publication = fleet.request("two")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        before(patch, "switch", {"node-3": die})
        fleet.run(publication)
    Publication.objects.filter(pk=publication.pk).update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None)
    assert eventually(lambda: fleet.seen()[:2] == [["one", "two"]] * 2)
    fleet.node(5).cut()
    done = fleet.run(publication)
    assert done.status == JobStatus.FAILED and "node-5: " in done.error
    assert served(done) == [OLD, OLD, OLD, OLD, UNKNOWN]
    assert fleet.serve("one")
