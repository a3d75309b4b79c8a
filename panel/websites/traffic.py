"""Traffic counters of one site on its web server, without those of other sites."""

from __future__ import annotations

import re
from dataclasses import replace

from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError
from panel.hosts.traffic import Traffic, web_server_traffic
from panel.rendering.nginx.quoting import prefix
from panel.websites.models import Site


def site_traffic(site: Site) -> Traffic:
    """Return the traffic counters of a site: requests, upstreams, caches and limits.

    Raises ApplicationError for a site without a web server, or on a web server without counters. Errors of
    `web_server_traffic` are passed on.
    """
    if site.web_server is None:
        raise ApplicationError(_("%s has no web server yet, so it has no traffic figures.") % site, field="web_server")
    return of_site(web_server_traffic(site.web_server, [site.name]), site.name)


def of_site(whole: Traffic, name: str) -> Traffic:
    """Return the part of a web server's counters that belongs to the site `name`. Upstreams, caches and limits are
    found by the prefix that the renderer gives to a site's names.
    """

    def named(rest: str) -> re.Pattern[str]:
        return re.compile(re.escape(prefix(name)) + "_" + rest)

    # The part after the prefix has no `_`, so the pattern for site `a` never matches parts of `a-b`.
    groups, zones = named(r"([^_]+)"), named(r"((?:req|conn)_[0-9_]+)")
    own = [zone for zone in whole.zones if zone.name == name]
    return replace(
        whole,
        connections={},
        requests=sum(zone.requests for zone in own),
        requests_per_s=sum(zone.requests_per_s for zone in own),
        protocols={},
        quic={},
        zone_count=len(own),
        zones=own,
        upstreams=[
            replace(item, upstream=found[1]) for item in whole.upstreams if (found := groups.fullmatch(item.upstream))
        ],
        caches=[replace(item, name=found[1]) for item in whole.caches if (found := groups.fullmatch(item.name))],
        limits=[replace(item, zone=found[1]) for item in whole.limits if (found := zones.fullmatch(item.zone))],
    )
