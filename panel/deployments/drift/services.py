"""Drift: find managed files that were edited on the host, show them, then adopt or overwrite them on request."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.changed_messages import ChangedMessages
from panel.core.errors import ApplicationError, Conflict
from panel.deployments import host_agent
from panel.deployments.models import (
    DEPLOYED,
    Deployment,
    DeploymentKind,
    Drift,
    DriftResolution,
    PinnedFile,
    Revision,
    SiteState,
    SiteStatus,
    WebServerState,
)
from panel.deployments.plan import FileRecord
from panel.deployments.planning import diffs
from panel.deployments.planning.disabled_files import disabled_records, served_path
from panel.deployments.planning.entries import link_words, secret_words, shown, signature
from panel.deployments.planning.plans import roots_of
from panel.deployments.planning.services import deployment_plan
from panel.deployments.revisions.rendered import blobs_keep, contents, records_of, revision_of_records, sha256_of
from panel.hosts.locks import HostBusy, host_lock
from panel.hosts.models import Host, HostJob, WebServer
from panel.rendering.spec import RenderedFile
from panel.websites.models import Site
from panel.websites.versions import plans_outdate, version_count

_messages = ChangedMessages(logging.getLogger(__name__), logging.INFO)


@dataclass(frozen=True)
class _Managed:
    """A path on a host that the panel manages. `record` is the file that must exist at this path; a record without
    digest and link means that no file may exist there.
    """

    site: Site | None
    web_server: WebServer
    record: FileRecord


def _managed(host: Host) -> dict[str, _Managed]:
    files: dict[str, _Managed] = {}
    states = SiteState.objects.filter(status__in=DEPLOYED, revision__web_server__host=host)
    for state in states.select_related("site", "revision__web_server").defer("revision__spec"):
        assert state.revision is not None
        for path, record in records_of(state.revision.files).items():
            files[path] = _Managed(state.site, state.revision.web_server, record)
    for state in _disabled_states(host):
        assert state.disabled_revision is not None
        web_server = state.disabled_revision.web_server
        for path in records_of(state.disabled_revision.files):  # a server would load the disabled site from such a file
            files[path] = _Managed(state.site, web_server, FileRecord(path, 0o644))
        for path, record in disabled_records(state.disabled_revision).items():
            files[path] = _Managed(state.site, web_server, record)
    for web_server_state in WebServerState.objects.filter(web_server__host=host).select_related("web_server"):
        for path, record in records_of([*web_server_state.files, *web_server_state.main_files]).items():
            files[path] = _Managed(None, web_server_state.web_server, record)
    return files


def _disabled_states(host: Host) -> Iterable[SiteState]:
    states = SiteState.objects.filter(status=SiteStatus.DISABLED, disabled_revision__web_server__host=host)
    return states.select_related("site", "disabled_revision__web_server")


def drift_check(host: Host) -> list[Drift]:
    """Compare a host's managed files with the deployed ones and return the open drift. Raises RemoteError.

    While another job locks the host, return the known drift without a check, because files may be changing.
    """
    try:
        with host_lock(host, f"drift check of {host}"):
            managed = _managed(host)
            return _record(host, managed, _look(host, managed))
    except HostBusy:
        return list(drifts_open(host))


def drift_check_quietly(host: Host) -> None:
    """Check a host for drift, but only log a failure: an unreachable host is reported on its own page."""
    try:
        drift_check(host)
    except ApplicationError as error:
        _messages.problem(host.pk, f"{host} was not checked for drift: {error.message}")
    else:
        _messages.solved(host.pk)


def drift_job(job: HostJob) -> dict[str, object]:
    """Run the host job of kind `drift`; return {"open": number of edited files, "paths": the first 100}."""
    found = drift_check(job.host)
    return {"open": len(found), "paths": [row.path for row in found[:100]]}


def _look(host: Host, managed: dict[str, _Managed]) -> dict[str, host_agent.Found]:
    if not managed:
        return {}
    return host_agent.differing(
        host,
        {path: signature(item.record) for path, item in managed.items()},
        secrets={path for path, item in managed.items() if item.record.secret},
        roots=roots_of(item.web_server for item in managed.values()),
        timeout_s=host_agent.ASK_TIMEOUT_S,
    )


def drifts_open(host: Host) -> list[Drift]:
    rows = Drift.objects.filter(web_server__host=host, resolution=DriftResolution.OPEN)
    return list(rows.select_related("site", "web_server"))


@transaction.atomic
def _record(host: Host, managed: dict[str, _Managed], found: dict[str, host_agent.Found]) -> list[Drift]:
    texts = contents(managed[path].record.sha256 for path in found)
    known = {row.path: row for row in drifts_open(host)}
    for path, row in known.items():
        if path not in found:
            _close(row, DriftResolution.GONE)
    for path, other in found.items():
        _write(known.get(path), managed[path], other, texts)
    statuses_refresh({item.site.pk for item in managed.values() if item.site})
    return drifts_open(host)


def _write(row: Drift | None, item: _Managed, other: host_agent.Found, texts: dict[str, str]) -> None:
    if row is not None and row.found_sha256 == other.sha256:
        return
    record = item.record
    row = row or Drift(site=item.site, web_server=item.web_server, path=record.path)
    row.expected_sha256, row.found_sha256 = signature(record), other.sha256
    if record.secret:
        before, after = secret_words(record.sha256), secret_words(other.sha256)
    else:
        before, after = shown(record, texts), other.content or link_words(other.sha256)
        row.found = other.content
    row.diff = diffs.unified(before, after, record.path, old_label="deployed", new_label="on the host")
    row.save()


def _close(row: Drift, resolution: DriftResolution) -> None:
    row.resolution, row.resolved_at = resolution, timezone.now()
    row.save(update_fields=["resolution", "resolved_at"])


def statuses_refresh(sites: Collection[int]) -> None:
    """Set the status of live sites with open drift to drifted, and of drifted sites without open drift to live. `sites`
    are the ids of the sites to check; other statuses stay.
    """
    states = SiteState.objects.filter(site__in=sites)
    is_open = Exists(Drift.objects.filter(site=OuterRef("site"), resolution=DriftResolution.OPEN))
    states.filter(is_open, status=SiteStatus.LIVE).update(status=SiteStatus.DRIFTED)
    states.filter(~is_open, status=SiteStatus.DRIFTED).update(status=SiteStatus.LIVE)


@dataclass(frozen=True)
class Adoptable:
    """An edited text file of a site that can be adopted: the site, the revision that has the file, and the file's path
    while the site is enabled.
    """

    site: Site
    revision: Revision
    path: str


@transaction.atomic
def drift_adopt(*, actor: User, drift: Drift) -> PinnedFile:
    """Adopt an edited file: the host's text becomes a revision of the site and stays in the file until `pin_release`.

    Settings that affect this file have no effect until then; every plan mentions this. Administrators only, because the
    text consists of raw directives.
    """
    require(actor, Action.ADMINISTER)
    found = adoptable(drift)
    revision = adopted(actor, drift, found, found.revision.spec)
    pin, _created = PinnedFile.objects.update_or_create(
        site=found.site,
        web_server=drift.web_server,
        path=found.path,
        defaults={"blob_id": drift.found_sha256, "adopted_by": actor},
    )
    after = {"path": found.path, "sha256": pin.blob_id, "revision": revision.number}
    before = {"sha256": drift.expected_sha256}
    audit_record(actor=actor, action="drift.adopt", target=found.site, before=before, after=after)
    return pin


def adopted(actor: User, drift: Drift, found: Adoptable, spec: dict[str, object]) -> Revision:
    """Store a revision with the text found on the host, and return it.

    The new revision becomes the live revision of the site; for a disabled site, it becomes the revision whose files
    stay on the host. `spec` is the frozen site to store in the revision.
    """
    site, state = found.site, found.revision
    stored = records_of(state.files)
    (kept,) = blobs_keep({0: [RenderedFile(found.path, drift.found, mode=stored[found.path].mode)]})[0]
    records = [kept if record.path == found.path else record for record in stored.values()]
    revision = revision_of_records(actor, site, drift.web_server, spec, records)
    SiteState.objects.filter(site=site, revision=state).update(revision=revision)
    SiteState.objects.filter(site=site, disabled_revision=state).update(disabled_revision=revision)
    plans_outdate([site.pk])  # the draft now has the host's text
    _close(drift, DriftResolution.ADOPTED)
    statuses_refresh([site.pk])
    return revision


def adoptable(drift: Drift) -> Adoptable:
    """Return the site, the revision that holds the file, and the file's path while the site is enabled. Raises
    ApplicationError for files that cannot be adopted.
    """
    if drift.resolution != DriftResolution.OPEN:
        raise Conflict(f"{drift.path} is already {drift.get_resolution_display().lower()}.")
    if drift.site is None:
        raise ApplicationError(
            f"{drift.path} belongs to the web server, not to a site, so it cannot be adopted. Enter your lines in "
            "the raw directives of the site that needs them, then overwrite the file."
        )
    if not drift.found_sha256:
        raise ApplicationError(
            f"{drift.path} was deleted on the host, so it cannot be adopted. Overwrite restores the file."
        )
    states = SiteState.objects.select_related("revision__web_server", "disabled_revision__web_server")
    state = states.get(site=drift.site)
    revision = state.revision or state.disabled_revision
    if revision is None or revision.web_server_id != drift.web_server_id:
        raise Conflict(
            f"{drift.site} is no longer on {drift.web_server}, so {drift.path} cannot be adopted. Check "
            "the host for drift again."
        )
    if not drift.expected_sha256:
        raise ApplicationError(
            f"{drift.path} belongs to {drift.site}, which is disabled. Overwrite removes the file. To "
            "put the site back in service, enable and deploy it."
        )
    path = drift.path if state.revision else served_path(revision, drift.path)
    _refuse_other_files(drift, records_of(revision.files)[path])
    return Adoptable(drift.site, revision, path)


def _refuse_other_files(drift: Drift, deployed: FileRecord) -> None:
    """Raise ApplicationError for a link, for a binary or large file, whose text the agent does not report, and for a
    file with a private key or passwords.
    """
    if deployed.secret:
        raise ApplicationError(
            f"{drift.path} contains a private key or passwords, so it cannot be adopted. Enter the new key or "
            "passwords in the site's settings, or overwrite the file."
        )
    if deployed.link or sha256_of(drift.found) != drift.found_sha256:
        raise ApplicationError(f"{drift.path} is not a text file, so it cannot be adopted. Overwrite the file.")


def drift_overwrite(*, actor: User, site: Site) -> Deployment:
    """Plan to overwrite the edited files of a site with the versions that were deployed last. The plan must be
    confirmed with `accept_drift`.
    """
    return deployment_plan(actor=actor, sites=[site], kind=DeploymentKind.OVERWRITE)[0]


@transaction.atomic
def pin_release(*, actor: User, pin: PinnedFile) -> None:
    """Delete the pin of an adopted file, so that the next deployment writes the file again. Administrators only."""
    require(actor, Action.ADMINISTER)
    audit_record(actor=actor, action="pin.release", target=pin.site, before={"path": pin.path, "sha256": pin.blob_id})
    version_count(pin.site)
    pin.delete()
