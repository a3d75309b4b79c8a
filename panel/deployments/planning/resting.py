"""Files of disabled sites, which stay on their host where no server looks for them.

A file in conf.d is renamed to NAME.conf.disabled, the link in sites-enabled goes; what they refer to stays. So an
administrator of the host finds them where a distribution's manual says, and enabling puts them back by the same names.
OpenLiteSpeed has no such place: a site that is disabled there is taken off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from panel.deployments.models import Revision, SiteState, SiteStatus
from panel.deployments.plan import FileRecord
from panel.deployments.revisions.rendered import records_of
from panel.hosts.models import Engine
from panel.rendering.layout import at_rest
from panel.websites import freeze
from panel.websites.models import Site


def can_rest(revision: Revision) -> bool:
    return revision.install.engine != Engine.OPENLITESPEED


def resting_records(revision: Revision) -> dict[str, FileRecord]:
    """What lies on the host of this revision while it is disabled, by path."""
    install = freeze.install_spec(revision.install)
    found = {}
    for record in records_of(revision.files).values():
        if path := at_rest(record.path, install):
            found[path] = replace(record, path=path)
    return found


def served_path(revision: Revision, path: str) -> str:
    """The path that a file of a disabled site has while the site is enabled."""
    install = freeze.install_spec(revision.install)
    return next(record for record in records_of(revision.files) if at_rest(record, install) == path)


def resting_revisions(sites: Iterable[Site]) -> dict[int, Revision]:
    """What lies disabled of each site, by its id; a site of which nothing does is left out."""
    states = SiteState.objects.filter(
        site__in=[site.pk for site in sites], status=SiteStatus.DISABLED, resting__isnull=False
    )
    rows = states.select_related("resting__install__host").defer("resting__spec")
    return {state.site_id: state.resting for state in rows if state.resting}


def resting_numbers(sites: Iterable[Site]) -> dict[int, int]:
    """The ids of those revisions, by the sites' ids."""
    states = SiteState.objects.filter(site__in=[site.pk for site in sites], resting__isnull=False)
    return dict(states.values_list("site_id", "resting_id"))
