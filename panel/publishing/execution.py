"""Execution of a publication: prepare the files on every host, exchange the folders, check the sites.

To exchange the folders of a host is to put the prepared folder in the place of the site's current folder. No folder is
exchanged before all hosts have the files. If a host fails, or if a site responds worse than before, every host whose
folders were exchanged gets its former files back. If a worker dies, another worker starts the publication again,
because all steps can be repeated. If this second attempt fails, it also restores the hosts whose folders the dead
worker exchanged. At the end each host reports which release it has.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from pathlib import Path
from uuid import UUID

from django.core.exceptions import PermissionDenied, ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.accounts.permissions import Action, require_each
from panel.core import claims
from panel.core.claims import Attempt, Claim
from panel.core.errors import ApplicationError, words_of
from panel.core.jobs import JobStatus
from panel.deployments import host_agent
from panel.deployments.execution.probes import Health as Expected
from panel.deployments.health import Observed
from panel.deployments.planning.placeholders import PAGE
from panel.deployments.watching.questions import judged, questions_of
from panel.hosts.services.hosts import refuse_paused
from panel.hosts.targets import target_for
from panel.publishing import git
from panel.publishing.models import Publication, Release, Source
from panel.publishing.selectors import Place, members, places_of, release_numbers
from panel.publishing.services import release_store, release_write, releases_forget
from panel.remote import pool
from panel.remote.client import Message
from panel.remote.errors import OperationRefused, RemoteError

logger = logging.getLogger(__name__)

STAGE_TIMEOUT_S = 600.0
ASK_TIMEOUT_S = 60.0
SETTLE_S = 1.2  # gallop notices a replaced folder within a second
ON_HOST = 2  # former publications whose files are kept on a host


class Stopped(Exception):
    """Raised when the publication was cancelled, or taken over by another worker."""


@dataclass
class Target:
    """Outcome of a publication on one host.

    `replaced` is the name under which the agent keeps the former files on the host. `is_asked` is stored before the
    host is asked to exchange its folders. `serves` tells which content the host had at the end: a release, other files,
    or unknown. `release` is the number of this release, None if the panel no longer has the release.
    """

    site: str
    host: str
    folder: str
    state: str = "waiting"  # waiting, prepared, published, returned, failed
    words: str = ""
    replaced: str = ""
    is_asked: bool = False
    serves: str = ""  # release, other, unknown; "" until the end
    release: int | None = None


def publication_execute(uuid: UUID) -> Attempt:
    """Claim and execute one queued publication; errors are recorded, not raised.
    Returns Attempt.NOTHING if the publication could not be claimed.
    """
    claim = Claim(Publication)
    if not claim.take([uuid], started_at=timezone.now()):
        return Attempt.NOTHING
    publication = Publication.objects.select_related("site__team", "release", "requested_by", "web_server__host").get(
        uuid=uuid
    )
    with claim.heartbeat():
        status, error = _outcome(publication, claim)
    values = {"status": status, "error": error, "targets": publication.targets, "finished_at": timezone.now()}
    if not claim.rows.filter(pk=publication.pk).update(**values, progress="", git_token=""):
        logger.warning("publication %s was taken over by another worker; its outcome counts", uuid)
    releases_forget(publication.site)
    return Attempt.DONE


def orphans_queue() -> list[UUID]:
    """Queue publications of dead workers again; return the UUIDs of all queued publications."""
    return claims.orphans_queue(Publication, "created_at", "pk")


def _outcome(publication: Publication, claim: Claim) -> tuple[JobStatus, str]:
    try:
        _Work(publication, claim).run()
    except Stopped:
        return JobStatus.CANCELLED, ""
    except (ApplicationError, ValidationError, PermissionDenied) as error:
        return JobStatus.FAILED, words_of(error)
    except Exception:
        logger.exception("publication %s failed", publication.uuid)
        return JobStatus.FAILED, _(
            "The panel failed because of an internal error. See the panel's log, and report the bug."
        )
    return JobStatus.SUCCEEDED, ""


class _Work:
    """Execution of one publication by this worker."""

    def __init__(self, publication: Publication, claim: Claim) -> None:
        self.publication = publication
        self.rows = claim.rows.filter(pk=publication.pk)
        self.name = f"r{publication.pk}"  # name of the new files in the agents' stores

    def run(self) -> None:
        publication = self.publication
        places = places_of(publication.site, publication.above, publication.web_server)
        self.hosts = [_HostWork(self, place) for place in places]
        self._continue()
        try:
            self._require_allowed()
            release = publication.release or self._from_git()
            self.record()
            self._published(release)
        except Exception:
            self._undo()
            raise
        self._tidy(ON_HOST)

    def _continue(self) -> None:
        """Mark the hosts that an earlier worker, which died, had already asked to put the new files live."""
        asked = {(target["host"], target["folder"]) for target in self.publication.targets if target.get("is_asked")}
        for host in self.hosts:
            host.target.is_asked = (host.target.host, host.target.folder) in asked

    def _require_allowed(self) -> None:
        user = self.publication.requested_by
        if user is None:
            raise ApplicationError(
                _("The user who requested this publication no longer has an account. Publish the release again.")
            )
        require_each(user, Action.DEPLOY, [member.team for member in members(self.publication.site)])
        refuse_paused([host.place.host for host in self.hosts])

    def _published(self, release: Release) -> None:
        with tempfile.TemporaryDirectory(prefix="paddock-content-") as folder:
            archive = Path(folder, "content.tar.gz")
            release_write(release, archive)
            for host in self.hosts:
                self.check(_("Preparing the files on %s") % host.place.host)
                host.attempt(partial(host.stage, release, archive))
        self._refuse_failed()
        for host in self.hosts:
            host.look_before()
        self.check(_("Exchanging the folders on all hosts"))
        for host in self.hosts:
            host.attempt(host.switch)
            self._refuse_failed()
        time.sleep(SETTLE_S)
        for host in self.hosts:
            host.look_after()
        self._refuse_failed()

    def _undo(self) -> None:
        """Restore the former files of every host that was asked to put the new files live.

        Raises ApplicationError, which names the hosts whose files could not be restored.
        """
        if not self.rows.exists():  # another worker continues
            return
        for host in self.hosts:
            if host.target.is_asked:
                host.attempt(host.back, is_undo=True)
        if any(host.target.is_asked or host.target.state != "waiting" for host in self.hosts):
            self._tidy(ON_HOST + 1)
        lost = [host.target.host for host in self.hosts if host.is_lost]
        if lost:
            words = ngettext(
                "Paddock could not restore the former files on %s. The host may serve the new files; all other "
                "hosts serve their former files. Publish a release again when the host responds.",
                "Paddock could not restore the former files on %s. These hosts may serve the new files; all other "
                "hosts serve their former files. Publish a release again when these hosts respond.",
                len(lost),
            )
            raise ApplicationError(words % ", ".join(lost))

    def _tidy(self, count: int) -> None:
        """Remove old files from the hosts, and record which release each host has.
        Each host keeps the live files and those of the last `count` successful publications.
        """
        if not self.rows.exists():  # another worker goes on
            return
        own = Publication.objects.filter(site=self.publication.site)
        done = own.filter(status=JobStatus.SUCCEEDED).order_by("-pk")
        names = [f"r{pk}" for pk in done.values_list("pk", flat=True)[:count]]
        for host in self.hosts:
            host.tidy(names)
        numbers = release_numbers(self.publication.site, {host.current for host in self.hosts})
        for host in self.hosts:
            host.target.release = numbers.get(host.current)
        self.record()

    def _refuse_failed(self) -> None:
        failed = [host.target for host in self.hosts if host.target.state == "failed"]
        if failed:
            words = "; ".join(f"{target.host}: {target.words}" for target in failed)
            raise ApplicationError(_("Nothing was published. %s") % words)

    def check(self, progress: str) -> None:
        """Record `progress`, a text for the page; raise Stopped if the publication was cancelled."""
        self.rows.update(progress=progress[:200])
        if self.rows.values_list("cancel_requested", flat=True).first() is not False:
            raise Stopped

    def record(self) -> None:
        self.publication.targets = [asdict(host.target) for host in self.hosts]
        self.rows.update(targets=self.publication.targets)

    def _from_git(self) -> Release:
        publication = self.publication
        check = partial(self.check, _("Fetching the repository %s") % publication.git_url)
        check()
        with tempfile.TemporaryDirectory(prefix="paddock-git-") as folder:
            archive, commit = git.fetched(
                publication.git_url, publication.git_ref, publication.git_token, Path(folder), check
            )
            with archive.open("rb") as file:
                release = release_store(
                    actor=publication.requested_by,
                    site=publication.site,
                    archive=file,
                    folder=publication.folder,
                    source=Source.GIT,
                    origin=publication.git_url,
                    revision=f"{publication.git_ref} {commit}".strip()[:200],
                )
        publication.release = release
        self.rows.update(release=release)
        return release


class _HostWork:
    """Steps of a publication on one host."""

    def __init__(self, work: _Work, place: Place) -> None:
        self.work = work
        self.place = place
        self.target = Target(place.site.name, place.host.name, place.folder)
        self.before: Observed | None = None
        self.is_lost = False  # the former files could not be restored
        self.current = ""  # at the end: name of the release on the host

    def attempt(self, step: Callable[[], None], *, is_undo: bool = False) -> None:
        """Run one step on the host and record the outcome. After an ApplicationError, the host counts as failed.
        `is_undo`: the step restores the former files.
        """
        try:
            step()
        except ApplicationError as error:
            self.is_lost = is_undo
            words = error.message
            if is_undo:
                words = _("Paddock could not restore the former files: %s") % words
            self.target.state, self.target.words = "failed", f"{self.target.words} {words}".strip()
        self.work.record()

    def stage(self, release: Release, archive: Path) -> None:
        """Unpack the files next to the folder on the host.
        Raises ApplicationError if the folder has files that Paddock did not publish, unless these may be
        replaced.
        """
        with pool.session(target_for(self.place.host)) as agent:
            # The agent removes its upload, so another publication of the same files needs its own.
            own = hashlib.sha256(f"{self.work.publication.uuid} {release.sha256}".encode()).hexdigest()
            source = agent.upload(archive, f"content-{own}")
            sizes = {"source": source, "sha256": release.sha256, "bytes": release.unpacked_size}
            agent.call("content", self._args("stage", **sizes), timeout=STAGE_TIMEOUT_S)
        if not self.work.publication.replace:
            self._refuse_strange()
        self.target.state = "prepared"

    def _refuse_strange(self) -> None:
        text = PAGE.format(name=escape(self.place.site.name))
        digest = hashlib.sha256(text.encode()).hexdigest()
        indexes = {name for block in self.place.spec.blocks for name in (*block.index, "index.html")}
        found = self._call("look", own=dict.fromkeys(indexes, digest))
        if found["count"] and found["current"] != self.work.name:
            words = ngettext(
                "%(folder)s has %(count)d file that Paddock did not publish, or that was changed after its "
                "publication: %(names)s. Enter the file under “Keep”, or choose to replace the files.",
                "%(folder)s has %(count)d files that Paddock did not publish, or that were changed after their "
                "publication: %(names)s. Enter the files under “Keep”, or choose to replace the files.",
                found["count"],
            )
            names = ", ".join(str(name)[:80] for name in found["strange"][:5])
            raise ApplicationError(
                words % {"folder": self.place.folder, "count": found["count"], "names": names}, field="replace"
            )

    def look_before(self) -> None:
        self.before = self._observed()

    def switch(self) -> None:
        self.target.is_asked = True
        self.work.record()
        found = self._call("switch")
        self.target.state, self.target.replaced = "published", found["replaced"]
        if not found["atomic"]:
            self.target.words = _(
                "The file system cannot exchange folders, so the folder was missing for a moment between two renames."
            )

    def look_after(self) -> None:
        """Check the site's health page on the host.
        The host counts as failed if the site responds worse than before.
        """
        after = self._observed()
        was_well = self.before is not None and self.before.is_well
        if after is not None and not after.is_well:
            if was_well:
                self.target.state, self.target.words = "failed", after.words
            else:
                self.target.words = f"{self.target.words} {_('As before: %s') % after.words}".strip()
        self.work.record()

    def back(self) -> None:
        """Restore the former files on the host.

        This also works if the response to the request that put the new files live was lost.
        """
        try:
            self._call("return")
        except OperationRefused as error:
            if self.target.state == "published" or error.code != "refused":
                raise
            return  # this host had not exchanged its folders
        if self.target.state != "failed":
            self.target.state = "returned"

    def tidy(self, names: list[str]) -> None:
        """Delete releases of this site on the host, and record which release is live there.

        The agent keeps the live release and the releases whose names are in `names`. The agent also deletes prepared
        releases, so that a late request to put one of them live has no effect. Releases that could not be deleted are
        deleted the next time.
        """
        try:
            self.current = str(self._call("tidy", keep_releases=names)["current"])
            self.target.serves = "release" if self.current else "other"
        except ApplicationError as error:
            self.target.serves = "unknown"
            logger.warning("older content of %s stays on %s: %s", self.place.site, self.place.host, error.message)

    def _observed(self) -> Observed | None:
        """Return the state of the site's health page on the host.
        None if the site is not live on the host, or has no health check that the host can make.
        """
        if not self.place.is_live:
            return None
        site = self.place.site
        expected = Expected(site.health_path, site.health_status, site.health_text, site.health_header)
        probes = list(questions_of(self.place.spec, expected, "").inside)
        try:
            return judged(probes, host_agent.observed(self.place.host, probes)) if probes else None
        except RemoteError as error:
            return Observed(False, error.message)

    def _call(self, action: str, **values: object) -> Message:
        with pool.session(target_for(self.place.host)) as agent:
            return agent.call("content", self._args(action, **values), timeout=ASK_TIMEOUT_S)

    def _args(self, action: str, **values: object) -> Message:
        place, publication = self.place, self.work.publication
        same = {"folder": place.folder, "roots": list(place.host.site_roots), "release": self.work.name}
        return {"action": action, "keep": list(publication.keep), **same, **values}
