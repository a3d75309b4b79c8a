"""Certificate authorities and revocation lists with which web servers verify client certificates. No database access
here.
"""

from __future__ import annotations

import datetime as dt

from cryptography import x509
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

MAX_CHARACTERS = 256 * 1024
MAX_AUTHORITIES = 50
_CRL_BEGIN, _CRL_END = "-----BEGIN X509 CRL-----", "-----END X509 CRL-----"


def authorities_read(pem: str) -> list[x509.Certificate]:
    """Return the certificates in a PEM text.

    Raises ValidationError unless each certificate is that of a certificate authority (RFC 5280, 4.2.1.9).
    """
    _check_size(pem)
    if "PRIVATE KEY" in pem:
        raise ValidationError(_("Remove the private key. This field needs only the authorities' certificates."))
    try:
        found = x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise ValidationError(_("Paste certificates in PEM format: -----BEGIN CERTIFICATE-----.")) from error
    if len(found) > MAX_AUTHORITIES:
        raise ValidationError(_("Enter at most %d certificates.") % MAX_AUTHORITIES)
    for authority in found:
        if not _may_sign(authority):
            name = authority.subject.rfc4514_string()
            words = _("%s is not a certificate authority. Paste the certificate that signed the clients' certificates.")
            raise ValidationError(words % name)
    return found


def _may_sign(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def revocations_read(pem: str) -> list[x509.CertificateRevocationList]:
    """Return the certificate revocation lists in a PEM text. Raises ValidationError if one cannot be read."""
    _check_size(pem)
    found = []
    for part in pem.split(_CRL_END)[:-1]:
        start = part.find(_CRL_BEGIN)
        try:
            found.append(x509.load_pem_x509_crl(f"{part[max(start, 0) :]}{_CRL_END}\n".encode()))
        except ValueError as error:
            raise ValidationError(_("Paste revocation lists in PEM format: %s.") % _CRL_BEGIN) from error
    if not found:
        raise ValidationError(_("Paste revocation lists in PEM format: %s.") % _CRL_BEGIN)
    return found


def revocations_check(authorities: list[x509.Certificate], lists: list[x509.CertificateRevocationList]) -> None:
    """Raise ValidationError unless every authority has a revocation list that it signed; without one, web servers
    reject all clients.
    """
    for authority in authorities:
        own = [item for item in lists if item.issuer == authority.subject]
        name = authority.subject.rfc4514_string()
        if not own:
            words = _(
                "The revocation list of %s is missing. Paste a list for each authority; otherwise, the web "
                "server refuses clients."
            )
            raise ValidationError(words % name)
        for item in own:
            if not _is_signed_by(item, authority):
                raise ValidationError(
                    _("The revocation list of %s is not signed by this authority. Paste the list of the authority.")
                    % name
                )


def _is_signed_by(item: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        return item.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except TypeError:  # a kind of key that signs no lists
        return False


def revocations_end(pem: str) -> dt.datetime | None:
    """Return the time at which the first of the revocation lists expires; None if no list expires. From this time on,
    web servers reject every client.
    """
    ends = [item.next_update_utc for item in revocations_read(pem)]
    return min((end for end in ends if end is not None), default=None)


def _check_size(pem: str) -> None:
    if len(pem) > MAX_CHARACTERS:
        raise ValidationError(_("The text is longer than %d characters.") % MAX_CHARACTERS)
    if not pem.isascii():
        raise ValidationError(_("PEM texts contain ASCII characters only."))
