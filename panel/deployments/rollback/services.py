"""Restore a site's draft from one of its revisions. Hosts change only after a plan is confirmed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.core.errors import ApplicationError
from panel.deployments.models import Revision
from panel.deployments.plan import FileRecord
from panel.deployments.planning import diffs
from panel.deployments.planning.entries import link_words, secret_words, shown, signature
from panel.deployments.planning.live_versions import live_version_is_draft
from panel.deployments.revisions.rendered import (
    contents,
    frozen_now,
    records_of,
    revisions_keep,
    sha256_of,
    site_files,
    spec_of,
)
from panel.rendering.spec import RenderedFile
from panel.websites import freeze
from panel.websites.definition_from_spec import definition_of
from panel.websites.definitions import SiteData
from panel.websites.models import Site
from panel.websites.services import site_define, site_export
from panel.websites.services.definition import changes_snippets


@dataclass(frozen=True)
class DraftRestore:
    """Result of restoring a draft. `kept`: the revision with the previous draft; None if it could not be rendered."""

    is_changed: bool
    kept: Revision | None = None
    is_live: bool = False  # the draft now equals the live revision


def draft_restore(*, actor: User, site: Site, revision: Revision, expected_version: int | None = None) -> DraftRestore:
    """Change the draft to the content of `revision`; the previous draft is kept as a revision.

    Certificates are matched by name, and texts adopted from the host stay adopted. Raises PermissionDenied (only
    administrators change raw directives), Conflict if the draft is no longer at `expected_version`, ValidationError if
    something the revision needs is gone, such as a certificate.
    """
    require(actor, Action.CHANGE, site.team)
    if revision.site_id != site.pk:
        raise ApplicationError(f"{revision} is not a revision of {site}.", field="revision")
    if is_said(site, revision):
        return DraftRestore(is_changed=False)
    with transaction.atomic():
        kept = _kept(actor, site)
        site_define(
            actor=actor,
            data=_definition(site, revision),
            site=site,
            expected_version=expected_version,
            action="site.set_back",
            noted={"revision": revision.number},
        )
        is_live = live_version_is_draft(site, revision.pk)  # nothing waits for deployment
    return DraftRestore(is_changed=True, kept=kept, is_live=is_live)


def is_said(site: Site, revision: Revision) -> bool:
    """Return whether the draft has the same settings as the revision; maintenance pages are not compared."""
    draft, earlier = freeze.site_spec(site, revision.web_server), spec_of(revision)
    return replace(draft, maintenance=None) == replace(earlier, maintenance=None)


def restore_changes_snippets(site: Site, revision: Revision) -> bool:
    """Return whether restoring the revision changes raw directives."""
    return changes_snippets(site_export(site), _definition(site, revision))


def _definition(site: Site, revision: Revision) -> SiteData:
    return definition_of(spec_of(revision), revision.web_server, site_export(site, with_secrets=True), site.web_server)


def _kept(actor: User, site: Site) -> Revision | None:
    if site.web_server is None:
        return None
    fetched = freeze.fetched(site)
    try:
        return revisions_keep(actor=actor, sites=frozen_now([(fetched, site.web_server)]))[site.pk]
    except ValidationError:  # an invalid draft is allowed and recorded in the audit
        return None


def draft_differences(site: Site, revision: Revision) -> list[dict[str, str]]:
    """Return the files in which the draft differs from a revision: [{"path", "diff", "state"}].

    `state` is "new" for a file that only the revision has, "removed" for a file that only the draft has, otherwise
    "changed". Raises ValidationError if the draft cannot be rendered.
    """
    fetched = freeze.fetched(site)
    now = {
        file.path: file
        for file in site_files(fetched, revision.web_server, freeze.spec_of_fetched(fetched, revision.web_server))
    }
    then = records_of(revision.files)
    texts = contents(record.sha256 for record in then.values() if not record.secret)
    found = []
    for path in sorted(now.keys() | then.keys()):
        if _mark(now.get(path)) != (signature(then[path]) if path in then else ""):
            diff = diffs.unified(_text(now.get(path)), shown(then.get(path), texts), path, old_label="current draft")
            found.append({"path": path, "diff": diff, "state": _state(now.get(path), then.get(path))})
    return found


def _mark(file: RenderedFile | None) -> str:
    if file is None:
        return ""
    return f"link:{file.link_target}" if file.link_target else sha256_of(file.text)


def _text(file: RenderedFile | None) -> str:
    if file is None:
        return ""
    if file.link_target:
        return link_words(_mark(file))
    return secret_words(_mark(file)) if file.is_secret else file.text


def _state(now: RenderedFile | None, then: FileRecord | None) -> str:
    if now is None:
        return "new"
    return "changed" if then else "removed"
