"""Proof of a site's domain names: the kind of challenge, and the challenge files on hosts, which are written and
checked.
"""

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
    """Return the kind of challenge that the site uses.

    HTTP-01 replaces TLS-ALPN-01 after the site has moved to a web server that does not support TLS-ALPN-01.
    """
    if automatic.dns_id:
        return ChallengeKind.DNS
    web_server = live.web_server if live is not None else automatic.site.web_server
    if automatic.tls_challenges and web_server is not None and sharing.supports_tls_challenges(web_server):
        return ChallengeKind.TLS
    return ChallengeKind.HTTP


def files_put(automatic: AutomaticCertificate, live: Revision, waiting: Sequence[Challenge]) -> list[str]:
    """Write challenge files on the site's host and on the hosts of its twins; return the problems of the twins' hosts.

    Twins are sites with the same names on other hosts. Raises ApplicationError if the site's own web server does not
    serve a file.
    """
    files = {item.file: item.content for item in waiting}
    challenge_files.put(live.web_server, files)
    problems = sharing.twins_put(automatic.site, waiting[0].kind, files)
    for item in waiting:
        problem = challenge_files.unanswered(spec_of(live), live.web_server.host, item)
        if problem:
            raise ApplicationError(problem)
    return problems
