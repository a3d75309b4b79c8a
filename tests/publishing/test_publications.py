"""Content published to real hosts: all files at once, returned when something is worse, and nothing lost."""

from __future__ import annotations

import os
import threading
import time
from io import BytesIO
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied
from pytest import MonkeyPatch

from agents.host import content_tree
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.hosts.models import Engine
from panel.publishing.execution import _HostWork
from panel.publishing.models import Publication, Release
from panel.publishing.services import publication_cancel, publication_request
from panel.remote import pool
from panel.remote.client import Message
from panel.remote.errors import ConnectionLost
from panel.websites.models import Site
from tests.publishing.conftest import Published, tarred, zipped
from tests.support.disk import Disk
from tests.support.waiting import eventually

NGINX = pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)


def test_files_of_an_archive_replace_the_folder_at_once(shop: Published) -> None:
    done = shop.publish({"site/index.html": "one", "site/css/main.css": "body{}"}, replace=True)
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert eventually(lambda: (shop.get(), shop.get("/css/main.css")) == ("one", "body{}"))
    (target,) = done.targets
    assert target["state"] == "published" and target["replaced"].startswith("found-")
    former = shop.store / target["replaced"] / "index.html"
    assert former.read_text() == "this is shop"
    assert shop.store.stat().st_mode & 0o777 == 0o700

    second = shop.publish({"index.html": "two"})
    assert (second.status, second.error) == (JobStatus.SUCCEEDED, "")
    assert eventually(lambda: shop.get() == "two")
    assert not (shop.folder / "css").exists()
    assert second.targets[0]["replaced"] == f"r{done.pk}"


@NGINX
def test_no_request_finds_neither_version(shop: Published) -> None:
    shop.publish({"index.html": "first"}, replace=True)
    seen: set[tuple[int, str]] = set()
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answer = shop.machine.get("shop")
            seen.add((answer.status, answer.text.strip()))

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(3):
        assert shop.publish({"index.html": f"v{number}"}).status == JobStatus.SUCCEEDED
    over.set()
    asking.join()
    assert seen <= {(200, "first"), (200, "v0"), (200, "v1"), (200, "v2")}


@NGINX
def test_two_sites_of_a_host_get_the_same_files_at_the_same_time(shop: Published, monkeypatch: MonkeyPatch) -> None:
    """The second publication begins and ends between the upload of the first one and its use."""
    other = Published.__new__(Published)
    other.machine, other.site = shop.machine, shop.machine.site("other", shop.web_server)
    shop.machine.deploy(other.site)
    archive = zipped({"index.html": "same"}).getvalue()
    upload, ended = pool.Session.upload, []

    def uploaded(session: pool.Session, path: Path, name: str) -> str:
        found = upload(session, path, name)
        if not ended:
            ended.append(True)
            done = other.run(other.request(BytesIO(archive), replace=True))
            assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
        return found

    monkeypatch.setattr(pool.Session, "upload", uploaded)
    done = shop.run(shop.request(BytesIO(archive), replace=True))
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "") and ended


@NGINX
def test_files_that_nobody_published_are_not_replaced_unasked(shop: Published) -> None:
    refused = shop.publish({"index.html": "one"})
    assert refused.status == JobStatus.FAILED
    assert "has 1 file that Paddock did not publish" in refused.error and "index.html" in refused.error
    assert shop.get() == "this is shop"
    shop.publish({"index.html": "one"}, replace=True)
    (shop.folder / "order.txt").write_text("written by the application")
    (shop.folder / "index.html").write_text("by hand")
    refused = shop.publish({"index.html": "two"})
    assert "has 2 files" in refused.error and "order.txt" in refused.error
    assert shop.get() == "by hand"


@NGINX
def test_kept_folders_stay_with_their_files(shop: Published) -> None:
    shop.publish({"index.html": "one", "data/uploads/.keep": ""}, replace=True, keep=["data/uploads"])
    (shop.folder / "data" / "uploads" / "photo.jpg").write_text("a photo")
    done = shop.publish({"index.html": "two", "data/uploads/.keep": ""}, keep=["data/uploads"])
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert (shop.get(), shop.get("/data/uploads/photo.jpg")) == ("two", "a photo")


def test_site_that_responds_worse_gets_its_files_back(shop: Published) -> None:
    shop.publish({"index.html": "one", "uploads/a.txt": "a"}, replace=True, keep=["uploads"])
    Site.objects.filter(pk=shop.site.pk).update(health_path="/", health_text="one")
    done = shop.publish({"start.html": "no index"}, keep=["uploads"])
    assert done.status == JobStatus.FAILED
    assert done.error.startswith("Nothing was published.") and shop.machine.host.name in done.error
    assert eventually(lambda: (shop.get(), shop.get("/uploads/a.txt")) == ("one", "a"))
    assert sorted(os.listdir(shop.folder)) == ["index.html", "uploads"]
    assert shop.publish({"index.html": "one again"}, keep=["uploads"]).status == JobStatus.SUCCEEDED


@NGINX
def test_earlier_release_is_published_again(shop: Published) -> None:
    shop.publish({"index.html": "one"}, replace=True)
    shop.publish({"index.html": "two"})
    first = Release.objects.get(site=shop.site, number=1)
    again = publication_request(actor=shop.machine.people.owner, site=shop.site, source=first)
    assert shop.run(again).status == JobStatus.SUCCEEDED
    assert shop.get() == "one"


@NGINX
def test_placeholder_page_is_replaced_without_asking(shop: Published) -> None:
    machine = shop.machine
    site = machine.site("blog", shop.web_server, root=str(machine.root / "www" / "blog"))
    for path in (machine.root / "www" / "blog").iterdir():
        path.unlink()
    (machine.root / "www" / "blog").rmdir()
    machine.deploy(site)
    assert "not been published yet" in machine.get("blog").text
    shop.site = site
    assert shop.publish({"index.html": "the blog"}).error == ""
    assert machine.get("blog").text.strip() == "the blog"


@NGINX
def test_folder_above_the_document_root_is_replaced_for_applications(shop: Published) -> None:
    machine = shop.machine
    app = machine.root / "www" / "app"
    (app / "public").mkdir(parents=True)
    (app / "public" / "index.html").write_text("old")
    shop.site = machine.site("app", shop.web_server, root=str(app / "public"))
    machine.deploy(shop.site)
    archive = tarred({"app/public/index.html": "new", "app/src/main.py": "x"}, {"app/public/logo": "../src/main.py"})
    done = shop.run(shop.request(archive, above=1, replace=True))
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert machine.get("app").text.strip() == "new"
    assert (app / "src" / "main.py").exists() and os.readlink(app / "public" / "logo") == "../src/main.py"
    with pytest.raises(ApplicationError, match="not below a site folder"):
        shop.site = Site.objects.get(name="shop")
        shop.request(zipped({"a": "b"}), above=1)


@NGINX
def test_folder_with_another_sites_document_root_is_refused(shop: Published) -> None:
    machine = shop.machine
    machine.site("inner", shop.web_server, root=str(shop.folder / "inner"))
    with pytest.raises(ApplicationError, match="document root of another site"):
        shop.request(zipped({"index.html": "x"}))


@NGINX
def test_published_files_belong_to_the_owner_of_the_folder(shop: Published) -> None:
    os.chown(shop.folder, 12345, 12346)
    shop.folder.chmod(0o750)
    try:
        done = shop.run(shop.request(zipped({"index.html": "x", "bin/run": "#!"}, executable="bin/run"), replace=True))
        assert done.error == "" or "Nothing was published" in done.error  # nginx's account may be unable to read it
        release = shop.folder if done.status == JobStatus.SUCCEEDED else shop.store / f"r{done.pk}"
        info = release.stat()
        assert (info.st_uid, info.st_gid, info.st_mode & 0o777) == (12345, 12346, 0o750)
        assert {(path.stat().st_uid, path.stat().st_mode & 0o777) for path in (release / "bin").iterdir()} == {
            (12345, 0o755)
        }
    finally:
        os.chown(shop.folder, 0, 0)


@NGINX
def test_folder_that_another_account_can_exchange_is_refused(shop: Published) -> None:
    above = shop.machine.root / "www"
    os.chown(above, 12345, 12346)
    try:
        done = shop.publish({"index.html": "x"}, replace=True)
    finally:
        os.chown(above, 0, 0)
    assert done.status == JobStatus.FAILED and "can be changed by" in done.error
    assert shop.get() == "this is shop"


@NGINX
def test_only_one_publication_of_a_site_runs_and_it_can_be_cancelled(shop: Published) -> None:
    waiting = shop.request(zipped({"index.html": "x"}))
    with pytest.raises(Conflict, match="publication of this site is running"):
        shop.request(zipped({"index.html": "y"}))
    publication_cancel(actor=shop.machine.people.owner, publication=waiting)
    assert shop.run(waiting).status == JobStatus.CANCELLED
    with pytest.raises(PermissionDenied):
        shop.request(zipped({"index.html": "y"}), actor=shop.machine.people.viewer)
    with pytest.raises(PermissionDenied):
        shop.request(zipped({"index.html": "y"}), actor=shop.machine.people.outsider)


@NGINX
def test_interrupted_publication_continues_and_can_still_be_returned(shop: Published) -> None:
    """The worker dies after the exchange; another takes the row and finishes it."""
    shop.publish({"index.html": "one"}, replace=True)
    again = shop.request(zipped({"index.html": "two"}))
    shop.run(again)
    Publication.objects.filter(pk=again.pk).update(status=JobStatus.QUEUED, claimed_by="", heartbeat_at=None)
    done = shop.run(again)
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert done.targets[0]["replaced"].startswith("r") and shop.get() == "two"


@NGINX
def test_hosts_keep_two_former_publications_and_the_panel_five_releases(shop: Published) -> None:
    shop.publish({"index.html": "0"}, replace=True)
    for number in range(1, 7):
        assert shop.publish({"index.html": str(number)}).error == ""
    folders = [path.name for path in shop.store.iterdir() if path.is_dir()]
    assert len([name for name in folders if name.startswith("r")]) == 2
    assert len([name for name in folders if name.startswith("found-")]) == 1
    assert list(Release.objects.filter(site=shop.site).values_list("number", flat=True)) == [7, 6, 5, 4, 3]


@NGINX
def test_publication_of_a_large_site_is_quick(shop: Published) -> None:
    files = {f"page-{number}.html": "x" * 2000 for number in range(3000)} | {"index.html": "large"}
    begun = time.monotonic()
    assert shop.publish(files, replace=True).error == ""
    assert time.monotonic() - begun < 30
    assert shop.get() == "large"


@NGINX
def test_failed_publications_leave_nothing_on_the_host(shop: Published) -> None:
    for _ in range(3):
        assert shop.publish({"index.html": "x" * 1000}).status == JobStatus.FAILED
    assert sorted(os.listdir(shop.store)) == []
    agent = shop.machine.root / "agent-home" / "agent"
    assert agent.is_dir() and not list(agent.rglob("content-*")), "uploads are removed as well"


@NGINX
@pytest.mark.parametrize("is_returned", [True, False])
def test_kept_files_survive_an_exchange_that_the_full_disk_interrupts(
    shop: Published, monkeypatch: MonkeyPatch, tmp_path: Path, is_returned: bool
) -> None:
    """The first kept path needs a folder in the new version, for which the disk has no inode left; the second one is
    also in the new version. The files then return, or the host does not respond any more and is published to later.
    """
    keep = ["data/uploads", "photos"]
    call = _HostWork._call
    with Disk(shop.machine.root / "www", "tmpfs", image=tmp_path / "none") as disk:
        for path in ("index.html", "data/uploads/a", "photos/b"):
            (shop.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (shop.folder / path).write_text("found")
        assert shop.publish({"index.html": "one"}, keep=keep, replace=True).error == ""

        def filled(self: _HostWork, action: str, **values: object) -> Message:
            if action == "switch":
                disk.fill_inodes(0)
            if action == "return" and not is_returned:
                raise ConnectionLost("web-1", "content")
            return call(self, action, **values)

        with monkeypatch.context() as patch:
            patch.setattr(_HostWork, "_call", filled)
            done = shop.publish({"index.html": "two", "photos/.keep": ""}, keep=keep)
        assert done.status == JobStatus.FAILED and "No space left on device" in done.targets[0]["words"]
        assert shop.get() == ("one" if is_returned else "two")
        disk.empty()
        if is_returned:
            assert (shop.get("/data/uploads/a"), shop.get("/photos/b")) == ("found", "found")
        assert shop.publish({"index.html": "three", "photos/.keep": ""}, keep=keep).error == ""
        assert (shop.get(), shop.get("/data/uploads/a"), shop.get("/photos/b")) == ("three", "found", "found")


@NGINX
def test_kept_folder_may_hold_any_number_of_files(shop: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.publish({"index.html": "one", "uploads/a": "a"}, replace=True, keep=["uploads"])
    for number in range(50):
        (shop.folder / "uploads" / str(number)).write_text("x")
    folder = os.open(shop.folder, os.O_RDONLY)
    monkeypatch.setattr(content_tree, "MOST_FILES", 10)
    assert list(content_tree.listed(folder, ["uploads"])) == ["index.html"]
    os.close(folder)
