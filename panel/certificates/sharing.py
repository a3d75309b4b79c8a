"""Other sites that a site's certificate affects: twins (sites with its names on other hosts), and sites that use it.

All hosts of a name serve a challenge, because the authority may connect to any of them (DNS with several addresses, or
a virtual address). A renewed certificate is deployed first for the site that ordered it; other sites that use it follow
once every listener of that site presents it.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar

from django.db.models import F, QuerySet
from django.utils import timezone

from panel.certificates import challenge_files
from panel.certificates.choices import ChallengeKind
from panel.certificates.listeners import site_names
from panel.certificates.models import UNDER_WAY, AutomaticCertificate
from panel.core.errors import ApplicationError, words_of
from panel.deployments.certificates.selectors import last_deployments, was_rolled_back, was_rolled_back_together
from panel.deployments.certificates.services import certificates_deploy
from panel.deployments.models import DEPLOYED, Deployment, DeploymentStatus, Revision
from panel.deployments.planning.selectors import live_revision, live_revisions
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Engine, Host, WebServer
from panel.rendering.challenges import shows_over_tls, without
from panel.rendering.nginx.scope import Dialect
from panel.websites import freeze
from panel.websites.models import Certificate, ServerBlock, Site, StreamServer
from panel.websites.versions import versions_count
from panel.websites.web_server_specs import web_server_spec

logger = logging.getLogger(__name__)

AGAIN_AFTER = dt.timedelta(hours=1)  # after a failed deployment on a host
Owner = TypeVar("Owner", ServerBlock, StreamServer)


def twins_of(site: Site) -> list[tuple[Site, Revision]]:
    """Return [(twin, its live revision)] for the twins of a live site.

    Twins are live sites of the same team that have one of the site's names on another host.
    """
    live = live_revision(site)
    names = set(site_names(spec_of(live))) if live is not None else set()
    if live is None or not names:
        return []
    rows = Site.objects.filter(team=site.team_id, blocks__names__name__in=names, enabled=True).exclude(pk=site.pk)
    found = {row.pk: row for row in rows.select_related("team", "web_server__host").distinct()}
    revisions = live_revisions(found.values())
    return [
        (found[pk], revision)
        for pk, revision in sorted(revisions.items())
        if revision.web_server.host_id != live.web_server.host_id and names & set(site_names(spec_of(revision)))
    ]


def challenges_serve(site: Site, serves: bool, tls_port: int = 0) -> None:
    """Set whether the site and its twins (see `twins_of`) serve challenges after their next deployment.
    With `tls_port`, they also serve challenges over TLS. Twins that have automatic HTTPS themselves are not changed.
    """
    twins = [twin for twin, _revision in twins_of(site)]
    own = set(AutomaticCertificate.objects.filter(site__in=twins).values_list("site", flat=True))
    wanted = {"answers_challenges": serves, "tls_challenge_port": tls_port}
    changed = [
        row.pk
        for row in (site, *twins)
        if row.pk not in own and wanted != {name: getattr(row, name) for name in wanted}
    ]
    Site.objects.filter(pk__in=changed).update(**wanted)
    versions_count(changed)
    site.refresh_from_db(fields=[*wanted, "version", "row_version", "updated_at"])


def serves_challenges(revision: Revision, kind: ChallengeKind) -> bool:
    """Return whether the live site serves challenges of this kind. Always true for DNS-01, which needs no web
    server.
    """
    spec = spec_of(revision)
    if kind == ChallengeKind.TLS:
        return shows_over_tls(spec) and supports_tls_challenges(revision.web_server)
    return kind == ChallengeKind.DNS or bool(spec.challenge_folder)


def supports_tls_challenges(web_server: WebServer) -> bool:
    return web_server.engine == Engine.NATIVE and Dialect.of(web_server_spec(web_server)).tls_challenges


def has_other_changes(site: Site, revision: Revision) -> bool:
    """Return whether deploying the site's draft would change anything except the setting to serve challenges."""
    draft, live = freeze.site_spec(site, revision.web_server), spec_of(revision)
    return site.web_server_id != revision.web_server_id or without(draft) != without(live)


def twins_put(site: Site, kind: ChallengeKind, files: Mapping[str, str]) -> list[str]:
    """Write challenge files on the hosts of the twins (see `twins_of`); return the problems.
    Problems are not fatal: the authority may reach another host, for example by a virtual address.
    """
    problems = []
    for _twin, revision in twins_of(site):
        if serves_challenges(revision, kind):
            try:
                challenge_files.put(revision.web_server, files)
            except ApplicationError as error:
                problems.append(f"{revision.web_server.host}: {words_of(error)}")
    return problems


def certificates_share() -> None:
    """Deploy renewed certificates for the other sites that use them: one deployment for each host.

    A site whose last deployment of certificates was rolled back is deployed alone, so that it does not stop the others.
    """
    behind: list[ServerBlock | StreamServer] = [
        *_behind(ServerBlock.objects.all()),
        *_behind(StreamServer.objects.all()),
    ]
    last = last_deployments([owner.site for owner in behind]) if behind else {}
    hosts: dict[tuple[Host, int], list[tuple[Site, Certificate]]] = defaultdict(list)
    for owner in behind:
        revision, previous = owner.site.state.revision, last.get(owner.site_id)
        assert owner.certificate is not None and revision is not None
        if not _is_waiting(previous):
            alone = owner.site_id if was_rolled_back(previous) else 0
            hosts[revision.web_server.host, alone].append((owner.site, owner.certificate))
    for (host, _alone), renewed in hosts.items():
        _deploy(host, list(dict.fromkeys(renewed)))


def _deploy(host: Host, renewed: list[tuple[Site, Certificate]]) -> None:
    try:
        certificates_deploy(host, renewed)
    except ApplicationError as error:
        if error.code == "drift" and len(renewed) > 1:  # edited files of one site must not stop the others
            for one in renewed:
                _deploy(host, [one])
            return
        logger.info("renewed certificates wait on %s: %s", host, words_of(error))


def _behind(rows: QuerySet[Owner]) -> QuerySet[Owner]:
    """Select those of the server blocks or stream servers `rows` that belong to live sites and still present the
    previous version of another site's certificate.

    The other site's listeners already present the renewed certificate. Times of expiry are compared for inequality,
    because the renewed certificate may expire first: some ACME profiles have certificates for six days.
    """
    rows = rows.filter(
        certificate__automatic__seen_at__isnull=False,
        site__state__status__in=DEPLOYED,
        site__state__revision__certificate_ends_at__isnull=False,
    )
    rows = rows.exclude(site=F("certificate__automatic__site"))
    rows = rows.exclude(site__state__revision__certificate_ends_at=F("certificate__not_after"))
    rows = rows.exclude(certificate__automatic__orders__status__in=UNDER_WAY)
    return rows.select_related("site__state__revision__web_server__host", "certificate")


def _is_waiting(last: Deployment | None) -> bool:
    """Return whether a site must wait: its last deployment of certificates runs, or failed less than AGAIN_AFTER ago.

    A site whose deployment together with other sites was rolled back does not wait: it is deployed alone at once.
    """
    if last is None or last.status == DeploymentStatus.SUCCEEDED or was_rolled_back_together(last):
        return False
    return not last.is_finished or (last.finished_at or timezone.now()) > timezone.now() - AGAIN_AFTER
