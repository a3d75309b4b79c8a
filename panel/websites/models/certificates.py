"""Certificates of sites, with their private keys or, for files that other programs renew on a host, with
their paths.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.fields import EncryptedTextField
from panel.core.models import BaseModel
from panel.hosts.models import Host
from panel.websites import validators
from panel.websites.certificate_faults import words_of_faults


class CertificateSource(models.TextChoices):
    UPLOADED = "uploaded", _("Uploaded")
    SELF_SIGNED = "self_signed", _("Self-signed")
    ACME = "acme", _("Automatic (ACME)")
    HOST = "host", _("File of its host")


class Certificate(BaseModel):
    name = models.SlugField(max_length=63, unique=True, validators=[validators.validate_slug])
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="certificates")
    source = models.CharField(max_length=12, choices=CertificateSource.choices)
    certificate_pem = models.TextField()  # leaf first, then the chain
    private_key_pem = EncryptedTextField(blank=True)  # "" for a file of a host, whose key stays there
    # Files that another program renews on the host. Sites refer to them; Paddock only reads the certificate.
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.CASCADE, related_name="certificates")
    certificate_path = models.CharField(max_length=400, blank=True, default="", db_default="")
    key_path = models.CharField(max_length=400, blank=True, default="", db_default="")
    names = models.JSONField(default=list)  # DNS names and addresses in the certificate
    issuer = models.CharField(max_length=300)
    fingerprint = models.CharField(max_length=64)  # SHA-256 of the leaf's DER, hex
    not_before = models.DateTimeField()
    not_after = models.DateTimeField(db_index=True)
    # reasons why browsers reject the valid certificate (certificate_faults); null: not checked yet
    faults = models.JSONField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)  # clients may reject the certificate since then

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def use_count(self) -> int:
        """Number of server blocks and stream servers that use the certificate."""
        users: Any = self  # both related names are of models that this module cannot import
        return len(users.blocks.all()) + len(users.stream_servers.all())

    @property
    def fault_words(self) -> list[str]:
        return words_of_faults(self.faults or [])
