"""Services that keep the servers of upstreams with host tags up to date when tags, addresses or teams of
hosts change.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.audit.services import audit_record
from panel.core.changed_messages import ChangedMessages
from panel.hosts.models import Host
from panel.websites import field_names
from panel.websites.following import hosts_tagged, servers_following
from panel.websites.models import Site, Upstream
from panel.websites.services.base import described
from panel.websites.services.parts import servers_set
from panel.websites.versions import version_count

_messages = ChangedMessages(logging.getLogger(__name__))


def upstreams_follow(sites: Collection[int] | None = None) -> list[Upstream]:
    """Update the servers of upstreams with host tags, of the given sites or of all; return the upstreams that changed.
    A change affects only the draft of the site, and reaches no host before a deployment.
    """
    rows = Upstream.objects.exclude(host_tags=[]).select_related("site__team").prefetch_related("servers")
    found = list(rows.filter(site__in=sites) if sites is not None else rows)
    hosts = hosts_tagged() if found else []
    changed = []
    for seen in found:
        if _is_current(seen, hosts):
            _messages.solved(seen.pk)
            continue
        try:
            with transaction.atomic():
                upstream = _locked(seen.pk, seen.site_id)
                if upstream is not None and not _is_current(upstream, hosts):
                    _replace(upstream)
                    changed.append(upstream)
        except ValidationError as error:  # a host's address that no site may use does not stop the others
            reason = "; ".join(error.messages)
            _messages.problem(seen.pk, f"the upstream {seen} of {seen.site} keeps its servers: {reason}")
    return changed


def _is_current(upstream: Upstream, hosts: Sequence[Host]) -> bool:
    now = [{"address": server.address} for server in upstream.servers.all()]
    return servers_following(upstream, upstream.site.team, hosts, now) == now


def _locked(pk: int, site: int) -> Upstream | None:
    """Return the upstream with its site, both locked; None if another transaction is editing or deleting the upstream.

    Waiting for that transaction could deadlock, and is not necessary: after an edit, that transaction itself updates
    the upstream's servers.
    """
    if not Site.objects.select_for_update(no_key=True).filter(pk=site).values_list("pk"):
        return None
    rows = Upstream.objects.select_for_update(of=("self",), skip_locked=True)
    return rows.select_related("site__team").filter(pk=pk).first()


def _replace(upstream: Upstream) -> None:
    before = described(upstream)
    servers_set(upstream, list(upstream.servers.values(*field_names.SERVER)))
    version_count(upstream.site)
    audit_record(actor=None, action="upstream.follow", target=upstream, before=before, after=described(upstream))
