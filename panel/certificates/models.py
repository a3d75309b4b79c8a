"""Models of automatic certificates: ACME and DNS accounts, automatic HTTPS of sites, orders, and observations."""

from __future__ import annotations

import json

from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator, MaxValueValidator, MinValueValidator, URLValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.certificates.choices import DIRECTORIES, AccountStatus, Issuer, KeyType, LimitKind, OrderStep
from panel.certificates.dns.providers import DnsKind
from panel.core.fields import EncryptedTextField
from panel.core.jobs import Job, JobStatus
from panel.core.models import BaseModel
from panel.deployments.models import Deployment, Revision
from panel.hosts.models import Host
from panel.websites import validators
from panel.websites.models import Certificate, Site

UNDER_WAY = (JobStatus.QUEUED, JobStatus.RUNNING)


class AcmeAccount(BaseModel):
    """A team's account at one certificate authority (RFC 8555 section 7.3)."""

    name = models.SlugField(max_length=63, unique=True, validators=[validators.validate_slug])
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="acme_accounts")
    issuer = models.CharField(max_length=20, choices=Issuer.choices, default=Issuer.LETSENCRYPT)
    directory_url = models.CharField(max_length=300, blank=True, validators=[URLValidator(["https"])])
    ca_pem = models.TextField(blank=True)  # root certificates for the directory's own TLS certificate
    email = models.CharField(max_length=254, blank=True, validators=[EmailValidator()])
    eab_key_id = models.CharField(max_length=300, blank=True, validators=[validators.validate_line])
    eab_key = EncryptedTextField(blank=True, default="")  # base64url, as the authority shows it
    key_pem = EncryptedTextField(blank=True, default="", editable=False)
    # the new key while the authority replaces the key
    next_key_pem = EncryptedTextField(blank=True, default="", db_default="", editable=False)
    url = models.CharField(max_length=500, blank=True, editable=False)
    status = models.CharField(max_length=12, choices=AccountStatus.choices, default=AccountStatus.NEW, editable=False)
    # Time from Retry-After of the authority; no order is started before.
    paused_until = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def directory(self) -> str:
        return DIRECTORIES.get(Issuer(self.issuer), self.directory_url)

    def clean(self) -> None:
        faults = {}
        if self.issuer == Issuer.OTHER and not self.directory_url:
            faults["directory_url"] = _(
                "Enter the URL of the ACME directory, for example https://ca.example/directory."
            )
        if self.issuer != Issuer.OTHER and (self.directory_url or self.ca_pem):
            field = "directory_url" if self.directory_url else "ca_pem"
            faults[field] = _(
                "Leave the directory URL empty, or choose “Another ACME directory” as the certificate authority."
            )
        if bool(self.eab_key_id) != bool(self.eab_key):
            field = "eab_key" if self.eab_key_id else "eab_key_id"
            faults[field] = _("Enter both the key ID and the key of the external account, or neither.")
        if faults:
            raise ValidationError(faults)


class DnsAccount(BaseModel):
    """A team's access to a DNS server or provider, for DNS-01.
    `settings` is a JSON object with the settings of its kind (dns/providers.py).
    """

    name = models.SlugField(max_length=63, unique=True, validators=[validators.validate_slug])
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="dns_accounts")
    kind = models.CharField(max_length=20, choices=DnsKind.choices)
    settings = EncryptedTextField(default="", editable=False)
    tested_at = models.DateTimeField(null=True, editable=False)
    tested_zone = models.CharField(max_length=253, blank=True, editable=False)
    problem = models.TextField(blank=True, editable=False)  # problem of the last test; "" if it succeeded

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def values(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.settings or "{}")
        return found


class AutomaticCertificate(BaseModel):
    """Automatic HTTPS of one site. `certificate` is the certificate that its server blocks use, once it was issued.

    With a DNS account, names are proven by DNS-01, and wildcard names are possible; otherwise by HTTP-01, or by
    TLS-ALPN-01 if `tls_challenges` is set.
    """

    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="automatic")
    account = models.ForeignKey(AcmeAccount, on_delete=models.PROTECT, related_name="automatic")
    dns = models.ForeignKey(DnsAccount, null=True, blank=True, on_delete=models.PROTECT, related_name="automatic")
    certificate = models.OneToOneField(
        Certificate, null=True, editable=False, on_delete=models.SET_NULL, related_name="automatic"
    )
    tls_challenges = models.BooleanField(default=False, db_default=False)
    key_type = models.CharField(max_length=8, choices=KeyType.choices, default=KeyType.P256)
    # renewals keep the key, for example because clients pin it
    reuse_key = models.BooleanField(default=False, db_default=False)
    profile = models.CharField(max_length=64, blank=True, validators=[validators.validate_line])
    https_port = models.PositiveIntegerField(
        default=443, validators=[MinValueValidator(1), MaxValueValidator(65535)]
    )  # port of the TLS listeners that are added
    http3 = models.BooleanField(default=True)  # where the web server supports it
    hsts_max_age_s = models.PositiveIntegerField(  # Strict-Transport-Security of server blocks without one; null: none
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(63_072_000)]
    )
    # Time at which the next order starts; null while one is running.
    next_at = models.DateTimeField(null=True, editable=False, db_index=True)
    ari_at = models.DateTimeField(null=True, editable=False)  # time to ask the authority for its renewal window
    reason = models.CharField(max_length=300, blank=True, editable=False)  # reason for `next_at`, in words
    failures = models.PositiveIntegerField(default=0, editable=False)  # orders that failed in a row
    problem = models.TextField(blank=True, editable=False)  # error of the last order
    seen_at = models.DateTimeField(null=True, editable=False)  # time at which every listener presented the certificate

    class Meta:
        ordering = ["site__name"]

    def __str__(self) -> str:
        return self.site.name

    @property
    def tls_port(self) -> int:
        """Port on which the site presents TLS-ALPN-01 challenges; 0 without these challenges."""
        return self.https_port if self.tls_challenges else 0


class Order(Job):
    """Job that brings one certificate from the authority to a site's listeners. Every step is stored separately."""

    automatic = models.ForeignKey(AutomaticCertificate, on_delete=models.CASCADE, related_name="orders")
    step = models.CharField(max_length=12, choices=OrderStep.choices, default=OrderStep.PREPARE)
    names = models.JSONField(default=list)
    key_pem = EncryptedTextField(blank=True, default="")
    certificate_pem = models.TextField(blank=True)
    url = models.CharField(max_length=500, blank=True)
    replaces = models.CharField(max_length=200, blank=True)  # RFC 9773 section 5
    tokens = models.JSONField(default=list)  # names of challenge files that may exist on hosts
    retry_at = models.DateTimeField(null=True)
    deployment = models.ForeignKey(Deployment, null=True, on_delete=models.SET_NULL, related_name="+")
    # The live state before the order, to restore if a listener does not present the new certificate.
    previous = models.ForeignKey(Revision, null=True, on_delete=models.SET_NULL, related_name="+")
    previous_pem = models.TextField(blank=True)
    previous_key_pem = EncryptedTextField(blank=True, default="")
    seen = models.JSONField(default=list)  # [{"listener", "name", "problem"}]: what each listener presented

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["automatic"], condition=Q(status__in=UNDER_WAY), name="certificates_one_order_at_a_time"
            )
        ]

    def __str__(self) -> str:
        return f"{self.automatic.site.name}: certificate"

    @property
    def is_finished(self) -> bool:
        return self.status not in UNDER_WAY


class ChallengeRecord(models.Model):
    """A TXT record that may exist in DNS.
    The row is stored before the record is written, and deleted after the record was removed, so that no record stays
    unnoticed.
    """

    order = models.ForeignKey(Order, null=True, on_delete=models.SET_NULL, related_name="challenge_records")
    dns = models.ForeignKey(DnsAccount, on_delete=models.PROTECT, related_name="challenge_records")
    zone = models.CharField(max_length=253)
    name = models.CharField(max_length=253)
    value = models.CharField(max_length=255)
    try_at = models.DateTimeField(default=timezone.now)  # time of the next attempt to remove it

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["dns", "zone", "name", "value"], name="certificates_record_once")
        ]

    def __str__(self) -> str:
        return f"{self.name} TXT {self.value}"


class OrderRecord(models.Model):
    """A line of an order's log: a text about a step, with its time."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="records")
    step = models.CharField(max_length=12, choices=OrderStep.choices)
    text = models.TextField()
    is_problem = models.BooleanField(default=False)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.text


class CertificateWatch(models.Model):
    """Results of the last check of a live site's TLS listeners by the panel (watching.py).

    `problems` lists {"listener", "name", "problem"}; `forbidden` has sentences about CAA records that forbid the
    authority of the next renewal.
    """

    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="certificate_watch")
    looked_at = models.DateTimeField(db_index=True)
    problems = models.JSONField(default=list)
    problems_since = models.DateTimeField(null=True, db_index=True)
    forbidden = models.JSONField(default=list)
    permission_at = models.DateTimeField(null=True)  # when CAA records were last looked up

    class Meta:
        verbose_name = _("watch of certificates")
        verbose_name_plural = _("watches of certificates")

    def __str__(self) -> str:
        return f"{self.site}: {len(self.problems)} problems"


class CertificateReading(models.Model):
    """The last reading of the certificates on a host's disk (on_disk/). `at` is null before the first successful
    reading.
    """

    host = models.OneToOneField(Host, on_delete=models.CASCADE, related_name="certificate_reading")
    at = models.DateTimeField(null=True, db_index=True)
    tried_at = models.DateTimeField()
    problem = models.TextField(blank=True)  # error of the last attempt; "" if it succeeded
    skipped = models.JSONField(default=list)  # [{"path", "why"}]: files that could not be read
    is_complete = models.BooleanField(default=True)  # False: a limit was reached, so certificates may be missing

    class Meta:
        verbose_name = _("reading of certificates")
        verbose_name_plural = _("readings of certificates")

    def __str__(self) -> str:
        return f"{self.host}: certificates on disk"


class HostCertificate(models.Model):
    """A certificate that the last reading found in a file of a host, managed by Paddock or not."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="certificates_on_disk")
    path = models.CharField(max_length=1024)
    named_in = models.JSONField(default=list)  # [[engine, configuration file]]; empty: found in a usual folder
    names = models.JSONField(default=list)  # DNS names and addresses in the certificate
    subject = models.CharField(max_length=300)
    issuer = models.CharField(max_length=300)
    fingerprint = models.CharField(max_length=64, db_index=True)  # SHA-256 of its DER, hex
    not_before = models.DateTimeField()
    not_after = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["not_after", "pk"]
        constraints = [models.UniqueConstraint(fields=["host", "path"], name="certificates_host_path_once")]

    def __str__(self) -> str:
        return f"{self.path} on {self.host}"


class RateLimit(models.Model):
    """Use of one rate limit of a certificate authority. `full_at`: the time at which the limit is unused again."""

    issuer = models.CharField(max_length=20, choices=Issuer.choices)
    kind = models.CharField(max_length=12, choices=LimitKind.choices)
    key = models.CharField(max_length=330)
    full_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "kind", "key"], name="certificates_one_rate_limit")]

    def __str__(self) -> str:
        return f"{self.issuer} {self.kind} {self.key}"
