"""Services of content: store releases, and request and cancel publications."""

from __future__ import annotations

import hashlib
import posixpath
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, require, require_each
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.core.messages import Task, task_send_on_commit
from panel.hosts.models import WebServer
from panel.hosts.services.hosts import refuse_paused
from panel.publishing import archives, git
from panel.publishing.models import UNFINISHED, Publication, Release, ReleasePart, Source
from panel.publishing.selectors import members, places_of, published
from panel.websites.models import Site

PART_BYTES = 1024 * 1024
KEPT = 5  # newest releases of a site that are kept
MOST_KEPT_PATHS = 50


@dataclass(frozen=True)
class Choices:
    """Options of a publication. Each field has the same name and meaning as in the model `Publication`."""

    above: int = 0
    keep: Sequence[str] = ()
    replace: bool = False
    web_server: WebServer | None = None


DEFAULT = Choices()


@dataclass(frozen=True)
class GitSource:
    """A revision of a git repository to publish: `ref` is a branch, tag or commit, `token` a secret for a private
    repository. If `folder` is set, only the files in this folder are published.
    """

    url: str
    ref: str = ""
    token: str = ""
    folder: str = ""


@transaction.atomic
def archive_publish(
    *, actor: User, site: Site, archive: IO[bytes], filename: str, folder: str = "", choices: Choices = DEFAULT
) -> Publication:
    """Store the files of an uploaded zip or tar archive as a release, and queue its publication.

    Raises ApplicationError at the field `archive` or `folder` if the archive is rejected. Raises the errors of
    `publication_request` too.
    """
    require(actor, Action.DEPLOY, site.team)
    places_of(site, choices.above)
    origin = posixpath.basename(filename)[:500] or "archive"
    release = release_store(
        actor=actor, site=site, archive=archive, folder=folder, source=Source.ARCHIVE, origin=origin
    )
    return publication_request(actor=actor, site=site, source=release, choices=choices)


def release_store(*, actor: User | None, site: Site, archive: IO[bytes], folder: str, **values: Any) -> Release:
    """Store the files of a zip or tar archive as the site's next release, and delete old releases."""
    with tempfile.TemporaryFile() as file:
        found = archives.packed(archive, file, folder)
        size = file.tell()
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        with transaction.atomic():
            Site.objects.select_for_update().get(pk=site.pk)
            last = Release.objects.filter(site=site).aggregate(last=Max("number"))["last"]
            release = Release.objects.create(
                site=site,
                number=(last or 0) + 1,
                folder=folder,
                sha256=digest,
                size=size,
                unpacked_size=found.unpacked_bytes,
                file_count=found.files,
                notes=found.notes,
                created_by=actor,
                **values,
            )
            for number, data in enumerate(iter(lambda: file.read(PART_BYTES), b"")):
                ReleasePart.objects.create(release=release, number=number, data=data)
            audit_record(actor=actor, action="release.create", target=release)
    releases_forget(site)
    return release


def release_write(release: Release, target: Path) -> None:
    """Write the tar.gz archive of a release to a file."""
    with target.open("wb") as file:
        for data in _parts(release):
            file.write(data)


def _parts(release: Release) -> Iterator[bytes]:
    for pk in release.parts.order_by("number").values_list("pk", flat=True):
        yield bytes(ReleasePart.objects.get(pk=pk).data)


def releases_forget(site: Site) -> None:
    """Delete old releases of a site, except the newest KEPT, the live one, and those of unfinished publications."""
    unfinished = Publication.objects.filter(site=site, status__in=UNFINISHED).values("release")
    kept = {*Release.objects.filter(site=site).order_by("-number").values_list("pk", flat=True)[:KEPT]}
    last = published(site)
    if last is not None and last.release_id is not None:
        kept.add(last.release_id)
    Release.objects.filter(site=site).exclude(pk__in=kept).exclude(pk__in=unfinished).delete()


@transaction.atomic
def publication_request(
    *, actor: User, site: Site, source: Release | GitSource, choices: Choices = DEFAULT
) -> Publication:
    """Queue the publication of a release, or of a revision of a git repository, on all hosts of the site.

    The actor needs the permission to deploy each copy of the site. Raises ApplicationError if a host's folder cannot be
    published to, Conflict while another publication of the site runs or if a host is paused.
    """
    Site.objects.select_for_update().get(pk=site.pk)
    require_each(actor, Action.DEPLOY, [member.team for member in members(site)])
    publication = Publication(
        site=site,
        requested_by=actor,
        above=choices.above,
        keep=keep_checked(choices.keep),
        replace=choices.replace,
        web_server=choices.web_server,
    )
    _name_source(publication, source)
    if Publication.objects.filter(site=site, status__in=UNFINISHED).exists():
        raise Conflict(
            _("A publication of this site is running. Wait until the publication ends, or cancel the publication.")
        )
    refuse_paused([place.host for place in places_of(site, choices.above, choices.web_server)])
    publication.save()
    audit_record(actor=actor, action="publication.request", target=publication)
    task_send_on_commit(Task.PUBLICATION_RUN, str(publication.uuid))
    return publication


def _name_source(publication: Publication, source: Release | GitSource) -> None:
    if isinstance(source, Release):
        if source.site_id != publication.site_id:
            raise ApplicationError(
                _("This release belongs to another site. Choose a release of this site."), field="release"
            )
        publication.release = source
        return
    git.check_repository(source.url)
    publication.git_url, publication.git_ref = source.url, git.check_ref(source.ref)
    publication.git_token, publication.folder = source.token, source.folder


def keep_checked(keep: Sequence[str]) -> list[str]:
    """Return normalized relative paths without duplicates.

    Raises ApplicationError at the field `keep` for an invalid path.
    """
    found = [path.strip().rstrip("/") for path in keep if path.strip()]
    for path in found:
        is_bad = path.startswith("/") or posixpath.normpath(path) != path or path.split("/")[0] in ("..", ".")
        if is_bad or not path.isprintable() or len(path) > 300:
            raise ApplicationError(
                _("These paths are not inside the folder: %s. Enter paths such as uploads.") % path, field="keep"
            )
    if len(found) > MOST_KEPT_PATHS:
        raise ApplicationError(_("Enter at most %d paths.") % MOST_KEPT_PATHS, field="keep")
    return list(dict.fromkeys(found))


@transaction.atomic
def publication_cancel(*, actor: User, publication: Publication) -> Publication:
    """Cancel a publication.

    A queued publication ends immediately. A running publication stops before its next step, but no longer once hosts
    have started to put the new files live. Raises Conflict if the publication has ended.
    """
    require(actor, Action.DEPLOY, publication.site.team)
    rows = Publication.objects.filter(pk=publication.pk)
    ended = {"status": JobStatus.CANCELLED, "finished_at": timezone.now(), "git_token": ""}
    is_ended = rows.filter(status=JobStatus.QUEUED).update(**ended)
    if not is_ended and not rows.filter(status=JobStatus.RUNNING).update(cancel_requested=True):
        raise Conflict(_("This publication has already ended and cannot be cancelled."))
    audit_record(actor=actor, action="publication.cancel", target=publication)
    publication.refresh_from_db()
    return publication
