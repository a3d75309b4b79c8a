"""Content from a real git server over https, and what a repository or its address must not do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from panel.core.errors import ApplicationError
from panel.core.jobs import JobStatus
from panel.hosts.models import Engine
from panel.publishing import git
from panel.publishing.models import Publication, Release
from panel.publishing.services import Choices, GitSource, publication_cancel, publication_request
from tests.publishing.conftest import Published
from tests.publishing.git_server import GitServer

pytestmark = pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)


@pytest.fixture
def repository(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8", "::1/128"]
    with GitServer(tmp_path) as server:
        monkeypatch.setenv("GIT_SSL_CAINFO", str(server.certificate))
        yield server


def published(shop: Published, url: str, **choices: Any) -> Publication:
    return shop.run(asked(shop, GitSource(url, **choices)))


def asked(shop: Published, source: GitSource) -> Publication:
    choices = Choices(replace=True)
    return publication_request(actor=shop.machine.people.owner, site=shop.site, source=source, choices=choices)


def test_branch_tag_and_commit_are_published(shop: Published, repository: GitServer) -> None:
    first = repository.commit({"index.html": "main", "public/index.html": "built"})
    repository.git("tag", "v1")
    repository.commit({"index.html": "newer"})
    done = published(shop, repository.url)
    assert (done.status, done.error) == (JobStatus.SUCCEEDED, "")
    assert shop.get() == "newer"
    assert published(shop, repository.url, ref="v1").error == ""
    assert shop.get() == "main"
    assert not (shop.folder / ".git").exists()
    release = Release.objects.get(site=shop.site, number=2)
    assert (release.origin, release.revision) == (repository.url, f"v1 {first}")
    assert published(shop, repository.url, ref="main", folder="public").error == ""
    assert shop.get() == "built"


def test_token_opens_a_private_repository_and_is_forgotten(
    shop: Published, tmp_path: Path, repository: GitServer
) -> None:
    repository.token = "needed"
    repository.commit({"index.html": "private"})
    refused = published(shop, repository.url)
    assert refused.status == JobStatus.FAILED and "git could not fetch the repository" in refused.error
    done = published(shop, repository.url, token="s3cret-token")
    assert (done.status, done.error, done.git_token) == (JobStatus.SUCCEEDED, "", "")
    assert repository.seen[-1].startswith("Basic ")
    assert "s3cret" not in str(list(Release.objects.values()))


def test_redirects_are_not_followed(shop: Published, repository: GitServer) -> None:
    repository.commit({"index.html": "x"})
    repository.redirect = "https://localhost:1/elsewhere"
    done = published(shop, repository.url, token="s3cret-token")
    assert done.status == JobStatus.FAILED and "does not follow redirects" in done.error


@pytest.mark.parametrize(
    "address",
    [
        "http://git.example/a.git",
        "file:///etc",
        "ssh://git@git.example/a",
        "git@git.example:a.git",
        "ext::sh -c id",
        "--upload-pack=id",
        "https://user:password@git.example/a.git",
        "https://git.example/a.git?x",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/a.git",
    ],
)
def test_address_that_is_no_public_https_repository_is_refused(shop: Published, address: str) -> None:
    with pytest.raises(ApplicationError) as refused:
        asked(shop, GitSource(address))
    assert refused.value.field == "git_url"


@pytest.mark.parametrize("ref", ["--upload-pack=id", "a b", "a..b", "a:b", "+a:b", "a.lock", "-x", "a\n"])
def test_ref_that_git_could_take_for_something_else_is_refused(shop: Published, ref: str) -> None:
    with pytest.raises(ApplicationError) as refused:
        git.check_ref(ref)
    assert refused.value.field == "git_ref"


def test_name_of_a_private_address_is_refused_when_it_is_fetched(
    shop: Published, repository: GitServer, settings: Settings
) -> None:
    settings.WEBHOOK_NETWORKS = []
    repository.commit({"index.html": "x"})
    done = published(shop, repository.url)
    assert done.status == JobStatus.FAILED and "not a public address" in done.error
    assert repository.seen == []


def test_links_of_a_repository_that_lead_outside_are_refused(shop: Published, repository: GitServer) -> None:
    (repository.work / "secret").symlink_to("../../../etc/passwd")
    repository.commit({"index.html": "x"})
    done = published(shop, repository.url)
    assert done.status == JobStatus.FAILED and "link that points outside" in done.error
    assert shop.get() == "this is shop"


def test_fetch_ends_when_it_is_cancelled_or_takes_too_long(
    shop: Published, repository: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"index.html": "x"})
    monkeypatch.setattr(git, "TIMEOUT_S", 1.0)
    repository.server.RequestHandlerClass.do_GET = lambda handler: time.sleep(60)  # type: ignore[attr-defined]
    begun = time.monotonic()
    done = published(shop, repository.url)
    assert "did not finish within 1 seconds" in done.error and time.monotonic() - begun < 40
    monkeypatch.setattr(git, "TIMEOUT_S", 60.0)
    waiting = asked(shop, GitSource(repository.url))
    real = git._Git._output

    def cancelled(self: Any, process: Any) -> str:
        if Publication.objects.filter(pk=waiting.pk, cancel_requested=False).exists():
            publication_cancel(actor=shop.machine.people.owner, publication=waiting)
        return real(self, process)

    monkeypatch.setattr(git._Git, "_output", cancelled)
    begun = time.monotonic()
    assert shop.run(waiting).status == JobStatus.CANCELLED
    assert time.monotonic() - begun < 40
