"""Choices of certificate authorities, challenges, key types, and states of accounts and orders."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Issuer(models.TextChoices):
    LETSENCRYPT = "letsencrypt", _("Let's Encrypt")
    LETSENCRYPT_STAGING = "letsencrypt_staging", _("Let's Encrypt (staging)")
    ZEROSSL = "zerossl", _("ZeroSSL")
    GOOGLE = "google", _("Google Trust Services")
    OTHER = "other", _("Another ACME directory")


DIRECTORIES = {
    Issuer.LETSENCRYPT: "https://acme-v02.api.letsencrypt.org/directory",
    Issuer.LETSENCRYPT_STAGING: "https://acme-staging-v02.api.letsencrypt.org/directory",
    Issuer.ZEROSSL: "https://acme.zerossl.com/v2/DV90",
    Issuer.GOOGLE: "https://dv.acme-v02.api.pki.goog/directory",
}


class ChallengeKind(models.TextChoices):
    HTTP = "http-01", _("HTTP (port 80)")
    TLS = "tls-alpn-01", _("TLS (port 443)")
    DNS = "dns-01", _("DNS")


class LimitKind(models.TextChoices):
    """Kinds of rate limits of certificate authorities.

    A limit counts orders, certificates for a domain, certificates for the same names, or failed challenges.
    """

    ORDERS = "orders", _("Orders of the account")
    DOMAIN = "domain", _("Certificates for the domain")
    NAMES = "names", _("Certificates for the same names")
    FAILURES = "failures", _("Failed challenges of the name")


class AccountStatus(models.TextChoices):
    NEW = "new", _("Not registered yet")
    VALID = "valid", _("Registered")
    DEACTIVATED = "deactivated", _("Deactivated")


class RevocationReason(models.TextChoices):
    """Reasons of a revocation (RFC 5280 section 5.3.1) that certificate authorities accept from subscribers."""

    UNSPECIFIED = "unspecified", _("No reason given")
    KEY_COMPROMISE = "key_compromise", _("Somebody else may have the private key")
    AFFILIATION_CHANGED = "affiliation_changed", _("The organization has changed")
    SUPERSEDED = "superseded", _("Replaced by another certificate")
    CESSATION = "cessation_of_operation", _("The domain names are no longer used")


REASON_CODES = {
    RevocationReason.UNSPECIFIED: 0,
    RevocationReason.KEY_COMPROMISE: 1,
    RevocationReason.AFFILIATION_CHANGED: 3,
    RevocationReason.SUPERSEDED: 4,
    RevocationReason.CESSATION: 5,
}


class KeyType(models.TextChoices):
    P256 = "p256", _("ECDSA P-256")
    P384 = "p384", _("ECDSA P-384")
    RSA2048 = "rsa2048", _("RSA 2048")
    RSA4096 = "rsa4096", _("RSA 4096")


class OrderStep(models.TextChoices):
    """Steps of an order, in this sequence. `Order.step` is the next step."""

    PREPARE = "prepare", _("Serve challenges on the host")
    ACCOUNT = "account", _("Account at the certificate authority")
    ORDER = "order", _("Order the certificate")
    CHALLENGE = "challenge", _("Prove the domain names")
    CERTIFICATE = "certificate", _("Receive the certificate")
    DEPLOY = "deploy", _("Deploy the certificate")
    CHECK = "check", _("Check every listener")
    DONE = "done", _("Certificate in use")


STEPS = [OrderStep(value) for value in OrderStep.values]
