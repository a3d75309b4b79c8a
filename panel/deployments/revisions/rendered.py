"""Render frozen sites and store the files: certificates, adopted texts, blobs and revisions."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any, cast

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from panel import rendering
from panel.accounts.models import User
from panel.deployments.models import Blob, PinnedFile, Revision
from panel.deployments.plan import FileRecord
from panel.hosts.models import WebServer
from panel.rendering import confinement, streams
from panel.rendering.errors import NotExpressible
from panel.rendering.layout import tls_files
from panel.rendering.spec import RenderedFile, SiteSpec, from_json, to_json
from panel.websites import freeze, web_server_specs
from panel.websites.certificates import certificate_end
from panel.websites.client_certificates import revocations_end
from panel.websites.models import ServerBlock, Site, StreamServer

KEY_MODE = 0o600
_SPEC = "_spec"  # cache key for a revision's SiteSpec
QUERY_SIZE = 400  # names in one query; SQLite supports at least 999


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def records_of(files: Iterable[dict[str, Any]]) -> dict[str, FileRecord]:
    """Return {path: file record} for the JSON of Revision.files or WebServerState.files."""
    return {item["path"]: FileRecord(**item) for item in files}


def blobs_keep(groups: Mapping[int, Iterable[RenderedFile]]) -> dict[int, list[FileRecord]]:
    """Store the contents of files that are not stored yet. `groups` is {key: files}; return {key: records of these
    files, sorted by path}.
    """
    records: dict[int, dict[str, FileRecord]] = {}
    wanted: dict[str, RenderedFile] = {}
    for key, files in groups.items():
        named = records.setdefault(key, {})
        for file in files:
            if file.link_target:
                named[file.path] = FileRecord(file.path, file.mode, link=file.link_target)
                continue
            digest = sha256_of(file.text)
            wanted[digest] = file
            named[file.path] = FileRecord(file.path, file.mode, sha256=digest, secret=file.is_secret)
    known = {digest for part in _parts(wanted) for digest in _blobs(part).values_list("sha256", flat=True)}
    new = [_blob(digest, file) for digest, file in wanted.items() if digest not in known]
    Blob.objects.bulk_create(new, ignore_conflicts=True, batch_size=QUERY_SIZE)
    return {key: [named[path] for path in sorted(named)] for key, named in records.items()}


def _blob(digest: str, file: RenderedFile) -> Blob:
    size = len(file.text.encode())
    return Blob(
        sha256=digest, content=file.text, is_secret=file.is_secret, size=size, ends_at=certificate_end(file.text)
    )


def _blobs(digests: Iterable[str]) -> QuerySet[Blob]:
    return Blob.objects.filter(sha256__in=digests)


def _parts(digests: Iterable[str]) -> Iterator[list[str]]:
    """Yield the digests, without duplicates, in lists short enough for one query."""
    left = [digest for digest in dict.fromkeys(digests) if digest]
    for start in range(0, len(left), QUERY_SIZE):
        yield left[start : start + QUERY_SIZE]


def contents(digests: Iterable[str]) -> dict[str, str]:
    """Return {SHA-256: text} of the stored blobs; unknown digests are omitted."""
    return {blob.sha256: blob.content for part in _parts(digests) for blob in _blobs(part)}


def _certificate_files(site: Site, web_server: WebServer) -> list[RenderedFile]:
    files: dict[str, RenderedFile] = {}
    owners: Iterable[ServerBlock | StreamServer] = chain(site.blocks.all(), site.stream_servers.all())
    for owner in owners:
        if owner.certificate is None or owner.certificate.host_id:  # a file of the host stays as it is
            continue
        paths = freeze.tls_files(site, web_server, owner.certificate)
        pem, key = owner.certificate.certificate_pem, owner.certificate.private_key_pem
        files[paths.certificate_path] = RenderedFile(paths.certificate_path, pem)
        files[paths.key_path] = RenderedFile(paths.key_path, key, mode=KEY_MODE, is_secret=True)
    return list(files.values())


Pins = dict[tuple[int, int], dict[str, str]]


def _pins_of(sites: Iterable[Site]) -> Pins:
    """Return the adopted texts of sites: {(site id, web server id): {path: text}}."""
    pins: Pins = {}
    for row in PinnedFile.objects.filter(site__in=[site.pk for site in sites]).select_related("blob"):
        pins.setdefault((row.site_id, row.web_server_id), {})[row.path] = row.blob.content
    return pins


def site_files(site: Site, web_server: WebServer, spec: SiteSpec, pins: Pins | None = None) -> list[RenderedFile]:
    """Render the exact files of a site on its host, with certificates and adopted texts. Raises ValidationError with
    messages by field path.
    """
    try:
        files = rendering.render(spec, web_server_specs.web_server_spec_for(site, web_server, spec))
    except NotExpressible as error:
        where = error.field.lstrip("/")
        raise ValidationError({where: f"{web_server.get_engine_display()}: {error.message}"}) from error
    texts = (_pins_of([site]) if pins is None else pins).get((site.pk, web_server.pk), {})
    return [
        RenderedFile(file.path, texts[file.path], file.mode, is_secret=file.is_secret) if file.path in texts else file
        for file in [*files, *_certificate_files(site, web_server)]
    ]


@dataclass(frozen=True)
class Frozen:
    """A site frozen for one web server, with everything its files depend on."""

    site: Site
    web_server: WebServer
    spec: SiteSpec
    pins: Pins

    @cached_property
    def spec_json(self) -> dict[str, object]:
        return cast(dict[str, object], to_json(self.spec))


def frozen_now(sites: Sequence[tuple[Site, WebServer]]) -> list[Frozen]:
    """Freeze each site for the given web server, with one query for the adopted texts of all sites. Load the sites with
    `freeze.with_parts` first.
    """
    pins = _pins_of(site for site, _ in sites)
    return [Frozen(site, web_server, freeze.spec_of_fetched(site, web_server), pins) for site, web_server in sites]


def revisions_keep(*, actor: User | None, sites: Sequence[Frozen]) -> dict[int, Revision]:
    """Render frozen sites and return {site id: revision with exactly the rendered files}, after storing new revisions.
    The number of queries is constant.
    """
    files = {item.site.pk: site_files(item.site, item.web_server, item.spec, item.pins) for item in sites}
    records = blobs_keep(files)
    wanted = [_draft(actor, item.site, item.web_server, item.spec_json, records[item.site.pk]) for item in sites]
    for row, item in zip(wanted, sites, strict=True):
        setattr(row, _SPEC, item.spec)
    return {row.site_id: row for row in _revisions_stored(wanted)}


def _draft(
    actor: User | None, site: Site, web_server: WebServer, spec: dict[str, object], records: Sequence[FileRecord]
) -> Revision:
    """Return a new revision from file records; it is not saved and has no number."""
    files = [asdict(record) for record in sorted(records, key=lambda record: record.path)]
    digest = sha256_of(json.dumps(files, sort_keys=True))
    return Revision(site=site, web_server=web_server, spec=spec, files=files, digest=digest, created_by=actor)


def revision_of_records(
    actor: User | None, site: Site, web_server: WebServer, spec: dict[str, object], records: Sequence[FileRecord]
) -> Revision:
    """Return the site's revision with exactly these stored files; create a revision if no earlier one has the same
    files.
    """
    return _revisions_stored([_draft(actor, site, web_server, spec, records)])[0]


def _revisions_stored(drafts: Sequence[Revision]) -> list[Revision]:
    """Return, for each unsaved revision, the stored revision with the same files; if none is stored, save it."""
    for _attempt in range(5):
        found = _revisions_found(drafts)
        new = [draft for draft in drafts if _key(draft) not in found]
        try:
            with transaction.atomic():
                _numbers_give(new)
                _ends_set(new)
                Revision.objects.bulk_create(new)
        except IntegrityError:  # a concurrent plan of these sites took the number or stored the same files
            continue
        return [found.get(_key(draft), draft) for draft in drafts]
    names = ", ".join(draft.site.name for draft in drafts)
    raise AssertionError(f"five plans of {names} at once took every next revision number")


def _key(revision: Revision) -> tuple[int, int, str]:
    return (revision.site_id, revision.web_server_id, revision.digest)


def _revisions_found(drafts: Sequence[Revision]) -> dict[tuple[int, int, str], Revision]:
    rows = Revision.objects.filter(
        site__in=[draft.site_id for draft in drafts], digest__in=[draft.digest for draft in drafts]
    ).defer("spec")
    found = {_key(row): row for row in rows}
    for draft in drafts:
        row = found.get(_key(draft))
        if row is not None:
            row.site, row.web_server = draft.site, draft.web_server
    return found


def _numbers_give(drafts: Sequence[Revision]) -> None:
    rows = Revision.objects.filter(site__in=[draft.site_id for draft in drafts]).order_by().values_list("site")
    last = dict(rows.annotate(last=Max("number"))) if drafts else {}
    for draft in drafts:
        draft.number = last.get(draft.site_id, 0) + 1


def _ends_set(drafts: Sequence[Revision]) -> None:
    """Set the times at which the first certificate and the first revocation list of each new revision expire."""
    named = {record["sha256"] for draft in drafts for record in draft.files if not record["secret"]}
    rows = Blob.objects.filter(ends_at__isnull=False, sha256__in=[digest for digest in named if digest])
    ends = dict(rows.values_list("sha256", "ends_at")) if any(_has_tls(draft) for draft in drafts) else {}
    for draft in drafts:
        own = [end for record in draft.files if (end := ends.get(record["sha256"])) is not None]
        draft.certificate_ends_at = min(own, default=None)
        draft.revocations_end_at = _revocations_end(draft)


def _revocations_end(revision: Revision) -> dt.datetime | None:
    """Return the earliest expiry time of the revocation lists for client certificates in a revision; None if no list
    has one.
    """
    checks = (block.client_certificates for block in spec_of(revision).blocks)
    ends = (revocations_end(check.crl) for check in checks if check is not None and check.crl)
    return min((end for end in ends if end is not None), default=None)


def _has_tls(revision: Revision) -> bool:
    return any(tls_files(spec_of(revision)))


def is_unchecked(revision: Revision) -> bool:
    """Return whether a revision's files lack the checks that confine requests to the site's folders, because the files
    are from an older release or were edited.
    """
    spec = spec_of(revision)
    if not confinement.needs_checks(spec):
        return False
    stored = {item["path"]: item["sha256"] for item in revision.files}
    try:
        files = rendering.render(spec, web_server_specs.web_server_spec_for(revision.site, revision.web_server, spec))
    except NotExpressible:
        return True
    return any(stored.get(file.path) != sha256_of(file.text) for file in files if not file.link_target)


def has_stream_servers(revision: Revision) -> bool:
    """Return whether the site has stream servers in a revision whose files or spec are loaded. Makes no query."""
    if "files" in revision.get_deferred_fields():
        return bool(spec_of(revision).stream_servers)
    return any(streams.is_file(record["path"]) for record in revision.files)


def spec_of(revision: Revision) -> SiteSpec:
    """Return the SiteSpec of a revision, parsed once per object because a revision never changes."""
    spec = getattr(revision, _SPEC, None)
    if spec is None:
        spec = from_json(SiteSpec, revision.spec)
        setattr(revision, _SPEC, spec)
    return cast(SiteSpec, spec)


def specs_load(revisions: Iterable[Revision]) -> None:
    """Load the SiteSpecs of revisions that were read without them, with one query for all."""
    missing: dict[int, list[Revision]] = {}
    for revision in revisions:
        if getattr(revision, _SPEC, None) is None and "spec" in revision.get_deferred_fields():
            missing.setdefault(revision.pk, []).append(revision)
    rows = Revision.objects.filter(pk__in=missing).values_list("pk", "spec") if missing else ()
    for pk, data in rows:
        spec = from_json(SiteSpec, data)
        for revision in missing[pk]:
            setattr(revision, _SPEC, spec)
