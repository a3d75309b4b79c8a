"""Deploy renewed certificates: the live revision of each site with new certificate files; drafts are not deployed.

The panel itself is the actor: permission was checked when the automatic certificate was enabled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from panel.core.errors import ApplicationError
from panel.deployments.confirmation.services import deployments_confirm_themselves
from panel.deployments.models import Deployment, DeploymentKind, Revision
from panel.deployments.planning.changes import Change
from panel.deployments.planning.selectors import live_revision
from panel.deployments.planning.services import changes_plan
from panel.deployments.revisions.rendered import KEY_MODE, blobs_keep, records_of, revision_of_records
from panel.hosts.models import Host
from panel.rendering.spec import RenderedFile
from panel.websites import freeze
from panel.websites.models import Certificate, Site


def revision_renewed(site: Site, live: Revision, *certificates: Certificate) -> Revision:
    """Return a revision like the live one, but with the current files of the given certificates."""
    files = []
    for certificate in certificates:
        paths = freeze.tls_files(site, live.web_server, certificate)
        files.append(RenderedFile(paths.certificate_path, certificate.certificate_pem))
        files.append(RenderedFile(paths.key_path, certificate.private_key_pem, mode=KEY_MODE, is_secret=True))
    records = records_of(live.files)
    for record in blobs_keep({site.pk: files})[site.pk]:
        if record.path in records:
            records[record.path] = replace(record, mode=records[record.path].mode)
    return revision_of_records(None, site, live.web_server, live.spec, list(records.values()))


def certificates_deploy(host: Host, renewed: Sequence[tuple[Site, Certificate]]) -> Deployment | None:
    """Queue one deployment, with one reload, of all renewed certificates on a host; None if all are already live.

    Raises Conflict when a site is being deployed, ApplicationError (code `drift`) when files were edited on the host.
    """
    changes, by_site = [], defaultdict(list)
    for site, certificate in renewed:
        by_site[site].append(certificate)
    for site, certificates in by_site.items():
        live = live_revision(site)
        if live is None:
            continue
        new = revision_renewed(site, live, *certificates)
        if new.pk != live.pk:
            changes.append((host, Change(site, live, new)))
    return _deploy(changes)


def revision_restore(site: Site, revision: Revision) -> Deployment | None:
    """Queue a deployment that restores `revision` of a site. Return None if this revision is live already, or if the
    site is not deployed.
    """
    live = live_revision(site)
    if live is None or live.pk == revision.pk:
        return None
    return _deploy([(revision.web_server.host, Change(site, live, revision))])


def _deploy(changes: Sequence[tuple[Host, Change]]) -> Deployment | None:
    if not changes:
        return None
    (plan,) = changes_plan(DeploymentKind.CERTIFICATE, changes)
    try:
        deployments_confirm_themselves([plan])
    except ApplicationError:
        plan.delete()  # otherwise users could confirm it
        raise
    return plan
