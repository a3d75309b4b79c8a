"""Content through the pages and the API, and for people who may not."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from panel.hosts.models import Engine
from panel.publishing.models import Publication, Release
from tests.api.caller import caller_of
from tests.publishing.conftest import Published, zipped
from tests.support.cast import signed_in

pytestmark = pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
PAGE = "/content/site/shop"


@pytest.fixture
def owner(shop: Published) -> Client:
    return signed_in(shop.machine.people.owner)


def archive(files: dict[str, str], name: str = "shop.zip") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, zipped(files).getvalue())


def test_uploaded_archive_is_published(shop: Published, owner: Client) -> None:
    page = owner.get(PAGE).content.decode()
    assert f"The document root: {shop.folder}" in page
    values = {"upload-archive": archive({"index.html": "one"}), "upload-above": "0", "upload-replace": "on"}
    answer = owner.post(f"{PAGE}/upload", {**values, "upload-keep": "uploads\n"})
    publication = Publication.objects.get()
    assert answer.headers["Location"] == reverse("publishing:detail", args=[publication.uuid])
    assert publication.keep == ["uploads"]
    assert shop.run(publication).error == ""
    assert shop.get() == "one"
    page = owner.get(answer.headers["Location"]).content.decode()
    assert "Release 1 is live." in page and str(shop.folder) in page
    page = owner.get(PAGE).content.decode()
    assert "shop.zip" in page and "Live" in page


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "Choose a zip or tar archive"),
        ({"upload-archive": SimpleUploadedFile("a.zip", b"no archive")}, "cannot be read as a zip or tar archive"),
        ({"upload-archive": archive({"a": ""}), "upload-folder": "dist"}, "has no files in the folder dist"),
        ({"upload-archive": archive({"a": ""}), "upload-keep": "../etc"}, "These paths are not inside the folder"),
    ],
)
def test_wrong_upload_is_explained_at_its_field(
    shop: Published, owner: Client, values: dict[str, Any], words: str
) -> None:
    answer = owner.post(f"{PAGE}/upload", {"upload-above": "0", **values})
    assert answer.status_code == 422 and words in answer.content.decode()
    assert not Publication.objects.exists() and not Release.objects.exists()


def test_repository_is_asked_for_with_its_errors_at_their_fields(shop: Published, owner: Client) -> None:
    answer = owner.post(f"{PAGE}/git", {"git-above": "0", "git-git_url": "http://git.example/a", "git-git_ref": ""})
    assert answer.status_code == 422 and "starts with https://" in answer.content.decode()
    answer = owner.post(f"{PAGE}/git", {"git-above": "0", "git-git_url": "https://git.example/a", "git-git_ref": "-x"})
    assert "Enter the name of a branch or tag" in answer.content.decode()
    answer = owner.post(f"{PAGE}/git", {"git-above": "0", "git-git_url": "https://git.example/a", "git-git_token": "t"})
    assert answer.status_code == 302 and Publication.objects.get().git_token == "t"
    assert "git_token" not in str(caller_of(shop.machine.people.owner).get("publications/").content)


def test_earlier_release_is_published_again_with_the_same_choices(shop: Published, owner: Client) -> None:
    shop.publish({"index.html": "one"}, replace=True, keep=["uploads"])
    shop.publish({"index.html": "two"}, keep=["uploads"])
    owner.post(f"{PAGE}/releases/1/publish")
    again = Publication.objects.first()
    assert again is not None and again.keep == ["uploads"]
    shop.run(again)
    assert shop.get() == "one"


def test_failed_publication_is_requested_again_and_replaces_edited_files_if_chosen(
    shop: Published, owner: Client
) -> None:
    shop.publish({"index.html": "one"}, replace=True)
    (shop.folder / "index.html").write_text("by hand")
    failed = shop.publish({"index.html": "two"}, keep=["uploads"])
    page = owner.get(f"/content/{failed.uuid}").content.decode()
    assert "choose to replace the files" in page and 'name="replace"' in page
    sent = {"like": str(failed.uuid), "replace": "on"}
    assert owner.post(f"{PAGE}/releases/2/publish", sent).status_code == 302
    again = Publication.objects.latest("pk")
    assert (again.replace, again.keep) == (True, ["uploads"]), "the choices are those of the failed publication"
    assert shop.run(again).error == ""
    assert shop.get() == "two"
    assert "Publish again" not in owner.get(f"/content/{again.uuid}").content.decode()
    for other in ("no-uuid", "9b2f1c9e-0000-4000-8000-000000000000"):
        assert owner.post(f"{PAGE}/releases/2/publish", {"like": other}).status_code == 404


def _json(answer: Any) -> Any:
    return answer.json()


def test_api_publishes_an_archive_and_an_earlier_release(shop: Published) -> None:
    caller = caller_of(shop.machine.people.owner)
    data = base64.b64encode(zipped({"index.html": "one"}).getvalue()).decode()
    body: Any = {"site": "shop", "archive": data, "filename": "a.zip", "replace": True}
    answer: Any = caller.post("publications/", body)
    assert answer.status_code == 202
    assert shop.run(Publication.objects.get()).error == ""
    found = _json(caller.get(f"publications/{answer.json()['uuid']}/"))
    assert (found["status"], found["release"], found["targets"][0]["state"]) == ("succeeded", 1, "published")
    assert _json(caller.get(f"jobs/{found['uuid']}/"))["steps"][0]["status"] == "succeeded"
    assert _json(caller.get("releases/"))["results"][0]["origin"] == "a.zip"
    assert caller.post("publications/", {"site": "shop", "release": 1}).status_code == 202
    for wrong in ({}, {"archive": data, "release": 1}, {"archive": "%"}, {"release": 9}, {"git_url": "ftp://x"}):
        assert caller.post("publications/", {"site": "shop", **wrong}).status_code in (409, 422, 400)


def test_other_teams_and_viewers_cannot_publish(shop: Published) -> None:
    people = shop.machine.people
    shop.publish({"index.html": "one"}, replace=True)
    publication = Publication.objects.get()
    for person, reads, writes in ((people.viewer, 200, 403), (people.outsider, 404, 404)):
        browser = signed_in(person)
        assert browser.get(PAGE).status_code == reads
        assert browser.get(f"/content/{publication.uuid}").status_code == reads
        for address in ("upload", "git", "releases/1/publish"):
            assert browser.post(f"{PAGE}/{address}").status_code == writes, address
        api = caller_of(person)
        assert api.post("publications/", {"site": "shop", "release": 1}).status_code in (403, 422, 400)
    assert Publication.objects.count() == 1
