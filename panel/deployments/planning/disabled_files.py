"""Files of disabled sites, which stay on their host where no server loads them.

A file in conf.d is renamed to NAME.conf.disabled. A link in sites-enabled is removed, and the file that the link points
to stays. So a host's administrator finds the files where the distribution's manual expects them, and enabling a site
restores the same names. OpenLiteSpeed has no place for files of disabled sites: disabling removes them from the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from panel.deployments.models import Revision, SiteState, SiteStatus
from panel.deployments.plan import FileRecord
from panel.deployments.revisions.rendered import records_of
from panel.rendering.layout import disabled_path, keeps_disabled
from panel.websites import web_server_specs
from panel.websites.models import Site


def can_stay_disabled(revision: Revision) -> bool:
    return keeps_disabled(revision.web_server.engine)


def disabled_records(revision: Revision) -> dict[str, FileRecord]:
    """Return {path while disabled: file record} for a revision's files that stay on the host of a disabled site."""
    web_server = web_server_specs.web_server_spec(revision.web_server)
    found = {}
    for record in records_of(revision.files).values():
        if path := disabled_path(record.path, web_server):
            found[path] = replace(record, path=path)
    return found


def served_path(revision: Revision, path: str) -> str:
    """Return the path that a disabled site's file has while the site is enabled. Raises StopIteration if `path` is not
    a file of the disabled site.
    """
    web_server = web_server_specs.web_server_spec(revision.web_server)
    return next(record for record in records_of(revision.files) if disabled_path(record, web_server) == path)


def disabled_revisions(sites: Iterable[Site]) -> dict[int, Revision]:
    """Return the revisions of disabled sites whose files are still on a host, by site id."""
    states = SiteState.objects.filter(
        site__in=[site.pk for site in sites], status=SiteStatus.DISABLED, disabled_revision__isnull=False
    )
    rows = states.select_related("disabled_revision__web_server__host").defer("disabled_revision__spec")
    return {state.site_id: state.disabled_revision for state in rows if state.disabled_revision}


def disabled_revision_ids(sites: Iterable[Site]) -> dict[int, int]:
    """Return {site id: id of the revision whose files stay on a host while the site is disabled}."""
    states = SiteState.objects.filter(site__in=[site.pk for site in sites], disabled_revision__isnull=False)
    return dict(states.values_list("site_id", "disabled_revision_id"))
