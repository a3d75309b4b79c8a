"""From a frozen site to stored files: rendering, the certificate's files, adopted texts, blobs and revisions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Max

from panel import rendering
from panel.accounts.models import User
from panel.deployments.models import Blob, PinnedFile, Revision
from panel.hosts.models import EngineInstall
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import RenderedFile, SiteSpec, from_json, to_json
from panel.websites import freeze
from panel.websites.models import Site

KEY_MODE = 0o600


@dataclass(frozen=True)
class FileRecord:
    """One file of a revision as it is stored there: `sha256` names its blob, "" for a link."""

    path: str
    mode: int
    sha256: str = ""
    link: str = ""
    secret: bool = False


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def records_of(files: Iterable[dict[str, Any]]) -> dict[str, FileRecord]:
    """Revision.files or InstallState.files by path."""
    return {item["path"]: FileRecord(**item) for item in files}


def blobs_keep(files: Iterable[RenderedFile]) -> list[FileRecord]:
    """Store the contents that are not there yet; the records that name them, by path."""
    records: dict[str, FileRecord] = {}
    blobs: dict[str, Blob] = {}
    for file in files:
        if file.link_target:
            records[file.path] = FileRecord(file.path, file.mode, link=file.link_target)
            continue
        digest = sha256_of(file.text)
        blobs[digest] = Blob(sha256=digest, content=file.text, is_secret=file.is_secret, size=len(file.text.encode()))
        records[file.path] = FileRecord(file.path, file.mode, sha256=digest, secret=file.is_secret)
    Blob.objects.bulk_create(blobs.values(), ignore_conflicts=True, batch_size=200)
    return [records[path] for path in sorted(records)]


def contents(digests: Iterable[str]) -> dict[str, str]:
    """The texts of blobs by their SHA-256."""
    return {blob.sha256: blob.content for blob in Blob.objects.filter(sha256__in={d for d in digests if d})}


def _certificate_files(site: Site, install: EngineInstall) -> list[RenderedFile]:
    files: dict[str, RenderedFile] = {}
    for block in site.blocks.all():
        if block.certificate is None:
            continue
        paths = freeze.tls_files(site, install, block.certificate)
        chain, key = block.certificate.certificate_pem, block.certificate.private_key_pem
        files[paths.certificate_path] = RenderedFile(paths.certificate_path, chain)
        files[paths.key_path] = RenderedFile(paths.key_path, key, mode=KEY_MODE, is_secret=True)
    return list(files.values())


def _pinned(site: Site, install: EngineInstall, files: list[RenderedFile]) -> list[RenderedFile]:
    """The files with adopted texts in place of rendered ones."""
    rows = PinnedFile.objects.filter(site=site, install=install).select_related("blob")
    texts = {row.path: row.blob.content for row in rows}
    return [
        RenderedFile(file.path, texts[file.path], file.mode, is_secret=file.is_secret) if file.path in texts else file
        for file in files
    ]


def site_files(site: Site, install: EngineInstall, spec: SiteSpec) -> list[RenderedFile]:
    """Exactly what will lie on the host for this site. Raises ValidationError keyed by the place in the site."""
    try:
        files = rendering.render(spec, freeze.install_spec(install))
    except NotExpressible as error:
        where = error.field.lstrip("/")
        raise ValidationError({where: f"{install.get_engine_display()}: {error.message}"}) from error
    return _pinned(site, install, [*files, *_certificate_files(site, install)])


def revision_keep(*, actor: User | None, site: Site, install: EngineInstall, is_fetched: bool = False) -> Revision:
    """Freeze and render the site as it is now; the revision that holds exactly these files, new if there is none.

    `is_fetched`: the site came from freeze.with_parts just now.
    """
    site = site if is_fetched else freeze.fetched(site)
    spec = freeze.spec_of_fetched(site, install)
    return revision_of_records(actor, site, install, to_json(spec), blobs_keep(site_files(site, install, spec)))


def revision_of_records(
    actor: User | None, site: Site, install: EngineInstall, spec: dict[str, Any], records: Sequence[FileRecord]
) -> Revision:
    """The revision of these stored files: equal files are the same revision."""
    files = [asdict(record) for record in sorted(records, key=lambda record: record.path)]
    digest = sha256_of(json.dumps(files, sort_keys=True))
    found = Revision.objects.filter(site=site, install=install, digest=digest).first()
    return found or _revision_new(actor, site, install, spec=spec, files=files, digest=digest)


def _revision_new(actor: User | None, site: Site, install: EngineInstall, **values: Any) -> Revision:
    for _attempt in range(5):
        last = Revision.objects.filter(site=site).aggregate(last=Max("number"))["last"] or 0
        try:
            with transaction.atomic():
                return Revision.objects.create(site=site, install=install, number=last + 1, created_by=actor, **values)
        except IntegrityError:  # another plan of this site took the number, or stored these very files
            found = Revision.objects.filter(site=site, install=install, digest=values["digest"]).first()
            if found:
                return found
    raise AssertionError(f"five plans of {site.name} at once took every next revision number")


def spec_of(revision: Revision) -> SiteSpec:
    return from_json(SiteSpec, revision.spec)
