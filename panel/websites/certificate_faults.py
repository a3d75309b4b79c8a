"""Faults of a certificate that make browsers reject it although it has not expired.

No I/O, except for reading the list of public certificate authorities (certifi).
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import AuthorityInformationAccessOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError
from django.utils.translation import gettext_lazy as _

from panel.core.ui import Text

WORDS: dict[str, Text] = {
    "weak_signature": _("The certificate is signed with SHA-1 or MD5, which browsers refuse."),
    "weak_key": _("The certificate's RSA key has fewer than 2048 bits, which browsers refuse."),
    "no_names": _("The certificate has no subject alternative names, and browsers look for domain names only there."),
    "no_issuer": _("The certificate of the issuer is missing from the chain, so some clients cannot verify the chain."),
    "too_long": _("The certificate is valid for more than 398 days, which browsers refuse."),
    "no_sct": _("The certificate has no proof of certificate transparency (SCT), which Chrome and Safari require."),
}
MIN_RSA_BITS = 2048  # OpenSSL's default security level rejects smaller keys, and the whole server with them
LONGEST = dt.timedelta(days=398)  # of certificates of public authorities, since 2020-09-01
_WEAK = (hashes.SHA1, hashes.MD5)


def faults_of(chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate] | None = None) -> list[str]:
    """Return the faults of a certificate chain, leaf first, as keys of WORDS.
    `roots` replaces the public authorities. Some rules apply only to chains of public authorities, as in browsers.
    Self-signed certificates have no faults, because their users know that browsers reject them.
    """
    leaf = chain[0]
    if leaf.issuer == leaf.subject:
        return []
    found = []
    if any(isinstance(item.signature_hash_algorithm, _WEAK) for item in chain if item.issuer != item.subject):
        found.append("weak_signature")
    key = leaf.public_key()
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < MIN_RSA_BITS:
        found.append("weak_key")
    if not _has(leaf, x509.SubjectAlternativeName):
        found.append("no_names")
    is_public = _leads_to(chain, _public_roots() if roots is None else roots)
    if len(chain) == 1 and not is_public and _names_issuer(leaf):
        found.append("no_issuer")
    if is_public and leaf.not_valid_after_utc - leaf.not_valid_before_utc > LONGEST:
        found.append("too_long")
    if is_public and not _has(leaf, x509.PrecertificateSignedCertificateTimestamps):
        found.append("no_sct")
    return found


def words_of_faults(keys: Iterable[str]) -> list[str]:
    return [str(WORDS[key]) for key in keys if key in WORDS]


def _has(certificate: x509.Certificate, extension: type[x509.ExtensionType]) -> bool:
    try:
        certificate.extensions.get_extension_for_class(extension)
    except (x509.ExtensionNotFound, ValueError):
        return False
    return True


def _names_issuer(leaf: x509.Certificate) -> bool:
    """Return whether the certificate contains the URL of its issuer's certificate (RFC 5280 section 4.2.2.1)."""
    try:
        value = leaf.extensions.get_extension_for_class(x509.AuthorityInformationAccess).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return any(item.access_method == AuthorityInformationAccessOID.CA_ISSUERS for item in value)


def _leads_to(chain: Sequence[x509.Certificate], roots: Sequence[x509.Certificate]) -> bool:
    """Return whether the chain was valid up to one of the roots when the validity of the leaf certificate began."""
    leaf = chain[0]
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        name = next(item for item in names if isinstance(item, x509.DNSName | x509.IPAddress))
    except (x509.ExtensionNotFound, ValueError, StopIteration):
        return False
    subject = x509.DNSName(name.value.replace("*", "a", 1)) if isinstance(name, x509.DNSName) else name
    policy = PolicyBuilder().store(Store(list(roots))).time(leaf.not_valid_before_utc + dt.timedelta(seconds=1))
    try:
        policy.build_server_verifier(subject).verify(leaf, list(chain[1:]))
    except (VerificationError, ValueError):
        return False
    return True


@cache
def _public_roots() -> tuple[x509.Certificate, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old roots have serial numbers that are not allowed any longer
        return tuple(x509.load_pem_x509_certificates(Path(certifi.where()).read_bytes()))
