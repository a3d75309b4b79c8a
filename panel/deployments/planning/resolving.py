"""Validate upstreams and PHP pools given by name: if a name resolves to the host itself, the site's team must have
the right to use that service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError
from panel.deployments import host_agent
from panel.hosts.models import Host, WebServer
from panel.rendering.claims import Claim
from panel.rendering.targets import is_name
from panel.websites import ownership, web_server_specs
from panel.websites.models import Site
from panel.websites.problems import Problem

_Named = dict[Host, dict[Site, list[Claim]]]


def resolved_problems(sites: Sequence[Site], web_server: WebServer | None = None) -> dict[int, list[Problem]]:
    """Return {site id: problems} for upstream servers and PHP pools that are given by name. The host of `web_server`,
    or of each site's own web server, resolves the names.
    """
    found: dict[int, list[Problem]] = {}
    for host, named in _named(sites, web_server).items():
        names = {claim.value.rpartition(":")[0] for claims in named.values() for claim in claims}
        try:
            known, why = host_agent.resolved(host, sorted(names)), ""
        except ApplicationError as error:
            known, why = {}, error.message
        for site, claims in named.items():
            unasked = [_unasked(claim, host, why) for claim in claims] if why else []
            found[site.pk] = unasked or _local(site, host, claims, known)
    return found


def _named(sites: Sequence[Site], web_server: WebServer | None) -> _Named:
    """Return {host: {site: claims}}: the sites' claims on services that are given by name.

    Claims of deployed revisions are left out, because they were checked earlier.
    """
    found: _Named = {}
    for site in sites:
        place = web_server or site.web_server
        used = ownership.site_claims(site, is_fetched=True)
        claims = [claim for claim in used if claim.kind == "service" and is_name(claim.value)]
        if place is not None and (claims := ownership.not_deployed(claims, site, place)):
            found.setdefault(place.host, {})[site] = claims
    return found


def _unasked(claim: Claim, host: Host, why: str) -> Problem:
    words = _(
        "Only the host %(host)s can tell whether %(target)s is a service on the host itself. %(why)s Plan again later."
    )
    return Problem(claim.where, words % {"target": claim.value, "host": host.name, "why": why})


def _local(site: Site, host: Host, claims: Sequence[Claim], known: Mapping[str, Sequence[str]]) -> list[Problem]:
    services = web_server_specs.services_of(site.team, host)
    return [
        Problem(claim.where, ownership.refusal(claim))
        for claim in claims
        if not services.permits(claim.value, resolved=known.get(claim.value.rpartition(":")[0], ()))
    ]
