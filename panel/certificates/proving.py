"""Proof of domain names by files on hosts: how a site proves its names, and whether its web server shows the files."""

from __future__ import annotations

from collections.abc import Sequence

from panel.certificates import challenge_files, sharing
from panel.certificates.acme_client import Challenge
from panel.certificates.choices import ChallengeKind
from panel.certificates.models import AutomaticCertificate
from panel.core.errors import ApplicationError
from panel.deployments.models import Revision
from panel.deployments.revisions.rendered import spec_of


def kind_wanted(automatic: AutomaticCertificate, live: Revision | None) -> ChallengeKind:
    """The kind of challenges that was chosen. A site that moved to a web server without TLS challenges uses HTTP."""
    if automatic.dns_id:
        return ChallengeKind.DNS
    web_server = live.web_server if live is not None else automatic.site.web_server
    if automatic.tls_challenges and web_server is not None and sharing.supports_tls_challenges(web_server):
        return ChallengeKind.TLS
    return ChallengeKind.HTTP


def files_put(automatic: AutomaticCertificate, live: Revision, waiting: Sequence[Challenge]) -> list[str]:
    """Write the files of challenges on every host of the names. ApplicationError if the site's own web server does not
    show one; returns problems of other hosts.
    """
    files = {item.file: item.content for item in waiting}
    challenge_files.put(live.web_server, files)
    problems = sharing.twins_put(automatic.site, waiting[0].kind, files)
    for item in waiting:
        problem = challenge_files.unanswered(spec_of(live), live.web_server.host, item)
        if problem:
            raise ApplicationError(problem)
    return problems
