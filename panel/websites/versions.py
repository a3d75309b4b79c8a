"""Versions of sites. The panel compares versions to decide whether a draft has changes, and whether a plan is outdated.
`Site.version` counts the changes of a draft: of the site, its server blocks, locations, upstreams, PHP pools, raw
directives, certificates and pinned files. Notes and tags are not counted, because no host needs them. A plan is
outdated if the version has changed since the plan was made. A draft has changes if its version differs from the live
version that deployments record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from panel.websites.models import Certificate, Site

# Hook for deployments, which depend on this app: called with the ids of sites before their versions are counted up, so
# that their live version can follow a change that leaves their files unchanged.
followers: list[Callable[[Collection[int]], None]] = []

# The draft was deployed and has changed since. An unknown version (NULL) counts as changed.
IS_PENDING = Q(state__deployed_at__isnull=False) & (
    Q(state__live_version__isnull=True) | Q(version__gt=F("state__live_version"))
)


def versions_count(sites: Collection[int]) -> None:
    """Increment the version of each of the given sites, by id. Call this function inside the transaction of the calling
    service, if the service has one.
    """
    if not sites:
        return
    rows = Site.objects.filter(pk__in=sites)
    with transaction.atomic(savepoint=False):
        # An update locks rows in the order in which it meets them; two of them could wait for each other.
        list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk"))
        rows.update(version=F("version") + 1, row_version=F("row_version") + 1, updated_at=timezone.now())


def version_count(site: Site) -> None:
    """Increment the version of a site, and its row version, which is the ETag of the whole definition."""
    versions_count([site.pk])
    site.refresh_from_db(fields=["version", "row_version", "updated_at"])


def plans_outdate(sites: Collection[int]) -> None:
    """Make the plans of the given sites, by id, outdated although the sites' files stay the same.

    Increments the version of each site. If the draft of a site has no changes, its live version is incremented as well,
    so that the draft still has no changes.
    """
    for follow in followers:
        follow(sites)
    versions_count(sites)


def certificate_count(certificate: Certificate) -> None:
    """Increment the version of every site that uses the certificate."""
    versions_count(set(sites_with_certificate(certificate).values_list("pk", flat=True)))


def sites_with_certificate(certificate: Certificate) -> QuerySet[Site]:
    """Select the sites whose draft uses the certificate in a server block or stream server, each once."""
    used = Q(blocks__certificate=certificate) | Q(stream_servers__certificate=certificate)
    return Site.objects.filter(used).distinct()
