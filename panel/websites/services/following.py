"""Services that keep upstreams with host tags up to date: hosts gain and lose tags, addresses and teams."""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from panel.audit.services import audit_record
from panel.websites.following import hosts_tagged, servers_following
from panel.websites.models import Upstream
from panel.websites.services.base import described
from panel.websites.services.parts import SERVER_FIELDS, servers_set
from panel.websites.versions import version_count


def upstreams_follow(sites: Collection[int] | None = None) -> list[Upstream]:
    """Update the servers of upstreams with host tags, of these sites or of all. Return the upstreams that changed.

    A change is one of the site's draft, and reaches no host before a deployment.
    """
    rows = Upstream.objects.exclude(host_tags=[])
    keys = rows.filter(site__in=sites) if sites is not None else rows
    found = list(keys.values_list("pk", flat=True))
    hosts = hosts_tagged() if found else []
    changed = []
    for pk in found:
        with transaction.atomic():
            upstream = Upstream.objects.select_for_update(of=("self",)).select_related("site__team").get(pk=pk)
            now = list(upstream.servers.values(*SERVER_FIELDS))
            wanted = servers_following(upstream, upstream.site.team, hosts, now)
            if [item["address"] for item in now] != [item["address"] for item in wanted]:
                _replace(upstream)
                changed.append(upstream)
    return changed


def _replace(upstream: Upstream) -> None:
    before = described(upstream)
    servers_set(upstream, list(upstream.servers.values(*SERVER_FIELDS)))
    version_count(upstream.site)
    audit_record(actor=None, action="upstream.follow", target=upstream, before=before, after=described(upstream))
