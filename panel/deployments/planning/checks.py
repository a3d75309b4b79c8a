"""Validate the sites of a plan before it is made: their drafts, or the old revisions that a rollback would deploy."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.deployments.models import Revision
from panel.deployments.planning.resolving import resolved_problems
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import WebServer
from panel.rendering.claims import spec_claims
from panel.websites import checks, freeze, paths
from panel.websites.models import Site
from panel.websites.ownership import Ownership, foreign_claims, not_deployed
from panel.websites.problems import Problem


def sites_check(
    actor: User, sites: Sequence[Site], web_server: WebServer | None = None, beside: Sequence[Site] = ()
) -> list[Site]:
    """Load the sites with all related rows, validate them, and return them.

    With `web_server`, each site is validated as if all sites, and those in `beside`, had moved to that web server;
    otherwise on the site's present web server. Raises ValidationError, {path of the field: messages}; each path begins
    with the site's name if there are several sites.
    """
    sites = list(freeze.with_parts(Site.objects.filter(pk__in=[site.pk for site in sites])))
    faults: dict[str, list[str]] = {}
    suspects = checks.clash_suspects(sites) if web_server is None else set()
    moved = clashes_when_moved(actor, [*sites, *beside], web_server) if web_server else {}
    is_admin = may(actor, Action.ADMINISTER)
    others = None if is_admin else Ownership(sites, web_server, is_fetched=True)
    resolved = {} if is_admin else resolved_problems(sites, web_server)
    for site in sites:
        prefix = f"{site.name}/" if len(sites) > 1 else ""
        if not site.enabled:
            message = f"{site} is disabled. Enable it first, then deploy it."
            faults.setdefault(f"{prefix}enabled", []).append(message)
        problems = checks.site_problems(
            site, web_server, actor=actor, is_fetched=True, may_clash=site.pk in suspects, others=others
        )
        for problem in dict.fromkeys([*problems, *moved.get(site.pk, ()), *resolved.get(site.pk, ())]):
            faults.setdefault(prefix + problem.where, []).append(problem.message)
    if faults:
        raise ValidationError(faults)
    return sites


def clashes_when_moved(actor: User, sites: Sequence[Site], web_server: WebServer) -> dict[int, list[Problem]]:
    """Return the conflicts that sites would have on `web_server`, by site id: for example a port of another site.

    The sites are moved in the database, checked, and moved back by rolling the transaction back.
    """
    with transaction.atomic():
        Site.objects.filter(pk__in=[site.pk for site in sites]).update(web_server=web_server)
        found = {site.pk: checks.site_clashes(actor, site, web_server) for site in sites}
        transaction.set_rollback(True)
    return found


def old_parts_check(actor: User, site: Site, revision: Revision) -> None:
    """Raise ValidationError if names or services of an old revision now belong to another team."""
    if may(actor, Action.ADMINISTER):
        return
    web_server, spec = revision.web_server, spec_of(revision)
    kept = paths.deployed_paths(site, web_server.host)
    problems = checks.path_clashes(
        actor, site, web_server.host, kept=kept, named=paths.spec_paths(spec, web_server.engine)
    )
    claims = foreign_claims(site, web_server, claims=spec_claims(spec, web_server.engine))
    problems += checks.claim_problems(not_deployed(claims, site, web_server))
    if problems:
        raise ValidationError({"revision": [problem.message for problem in problems]})
