"""Checks of TLS before a deployment: certificates, their names and hosts, and client certificates."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils import timezone
from django.utils.translation import gettext as _

from panel.hosts.models import WebServer
from panel.rendering.confined import AUTHORITIES
from panel.rendering.roots import is_below
from panel.websites import certificates
from panel.websites.client_certificates import revocations_end
from panel.websites.models import ClientVerify, ServerBlock, Site, StreamServer
from panel.websites.problems import Problem


def tls_problems(where: str, block: ServerBlock, tls: bool, names: list[str]) -> Iterable[Problem]:
    if tls and block.certificate is None:
        yield Problem(f"{where}/certificate", _("A TLS address needs a certificate. Choose or create a certificate."))
    if block.client_verify:
        yield from _client_problems(where, block, tls)
    if not tls and block.hsts_max_age_s:
        yield Problem(f"{where}/hsts_max_age_s", _("HSTS needs TLS. Add a TLS address, or clear HSTS."))
    if tls and block.certificate is not None:
        missing = [name for name in names if not certificates.covers(block.certificate.names, name)]
        if missing:
            yield Problem(
                f"{where}/certificate",
                _("The certificate %(certificate)s does not cover %(names)s, so browsers would show a warning.")
                % {"certificate": block.certificate, "names": ", ".join(missing)},
            )


def _client_problems(where: str, block: ServerBlock, tls: bool) -> Iterable[Problem]:
    """Yield problems with client certificates: addresses without TLS, at which visitors need no certificate, and
    expired revocation lists, which make the web server reject every client.
    """
    if not tls:
        words = _("Client certificates need TLS. Add a TLS address, or turn client certificates off.")
        yield Problem(f"{where}/client_verify", words)
    is_plain = any(not item.tls for item in block.listens.all())
    if is_plain and block.client_verify == ClientVerify.REQUIRED and not block.redirect_to_https:
        yield Problem(
            f"{where}/client_verify",
            _("At the addresses without TLS, visitors need no certificate. Redirect HTTP to HTTPS."),
        )
    end = revocations_end(block.client_crl) if block.client_crl else None
    if end is not None and end <= timezone.now():
        words = _(
            "A revocation list expired on %s, so the web server would refuse every client. Paste the current list."
        )
        yield Problem(f"{where}/client_crl", words % f"{end:%Y-%m-%d %H:%M} UTC")


def stream_problems(site: Site, web_server: WebServer) -> Iterable[Problem]:
    """Yield problems with the TLS settings of the site's stream servers on a web server."""
    for index, server in enumerate(site.stream_servers.all()):
        yield from host_file_problems(f"stream_servers/{index}", server, web_server)
        folders = (*(root for root in web_server.host.site_roots if root), *AUTHORITIES)
        if server.upstream_tls_ca and not is_below(server.upstream_tls_ca, folders):
            words = _("%(path)s is outside the folders of %(host)s for certificates: %(folders)s.")
            values = {"path": server.upstream_tls_ca, "host": web_server.host, "folders": ", ".join(folders)}
            yield Problem(f"stream_servers/{index}/upstream_tls_ca", words % values)


def host_file_problems(where: str, owner: ServerBlock | StreamServer, web_server: WebServer) -> Iterable[Problem]:
    """Yield a problem if the certificate of a server block or stream server is a file on another host than the web
    server.
    """
    certificate = owner.certificate
    if certificate is not None and certificate.host_id not in (None, web_server.host_id):
        words = _("The certificate %(certificate)s is a file on %(host)s. Choose another certificate for %(other)s.")
        values = {"certificate": certificate, "host": certificate.host, "other": web_server.host}
        yield Problem(f"{where}/certificate", words % values)
