"""Server blocks of a site, with their addresses and names."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel, CheckedModel
from panel.rendering import claims
from panel.websites import rules, shapes, validators
from panel.websites.models.certificates import Certificate
from panel.websites.models.ports import PORT
from panel.websites.models.sites import Site


class Gzip(models.TextChoices):
    INHERIT = "", _("Web server default")
    ON = "on", _("On")
    OFF = "off", _("Off")


class LogFormat(models.TextChoices):
    COMBINED = "", _("Combined")
    COMMON = "common", _("Common")
    TIMED = "timed", _("Combined, with response time")
    JSON = "json", _("JSON, one object per line")


class ClientVerify(models.TextChoices):
    OFF = "", _("Not requested")
    OPTIONAL = "optional", _("Optional")
    REQUIRED = "required", _("Required")


class LogLevel(models.TextChoices):
    DEBUG = "debug"
    INFO = "info"
    NOTICE = "notice"
    WARN = "warn"
    ERROR = "error"
    CRIT = "crit"


class ServerBlock(BaseModel):
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="blocks")
    position = models.PositiveIntegerField(default=0)
    root = models.CharField(  # absolute, below one of the host's site folders
        _("Document root"),
        max_length=500,
        blank=True,
        validators=[validators.validate_path],
        help_text=_("Absolute path in one of the host's site folders, for example `/srv/www/shop`."),
    )
    index = models.JSONField(  # ["index.html", "index.php"]
        default=list, blank=True, validators=[shapes.validate_index]
    )
    try_files = models.JSONField(  # ["$uri", "$uri/", "=404"]
        default=list, blank=True, validators=[shapes.validate_try_files]
    )
    autoindex = models.BooleanField(_("List folders without an index file"), default=False)
    rewrites = models.JSONField(  # [{"pattern": "^/old/(.*)$", "replacement": "/new/$1", "flag": "last"}]
        default=list, blank=True, validators=[shapes.validate_rewrites]
    )
    error_pages = models.JSONField(  # [{"codes": [404], "uri": "/404.html", "response": null}]
        default=list, blank=True, validators=[shapes.validate_error_pages]
    )
    headers = models.JSONField(  # [{"name", "value", "always": true}, {"name": "@set", "value": ""}]
        default=list, blank=True, validators=[shapes.validate_headers]
    )
    access_log = models.CharField(  # path; "off"; empty: the server's default
        _("Access log"),
        max_length=500,
        blank=True,
        validators=[validators.validate_log_path],
        help_text=_("A path such as `/var/log/nginx/shop.log`, or `off`. Leave empty for the web server's shared log."),
    )
    access_log_format = models.CharField(
        _("Access log format"), max_length=8, choices=LogFormat.choices, default="", blank=True
    )
    error_log = models.CharField(_("Error log"), max_length=500, blank=True, validators=[validators.validate_log_path])
    error_log_level = models.CharField(
        _("Error log level"), max_length=8, choices=LogLevel.choices, default=LogLevel.ERROR
    )
    gzip = models.CharField(
        _("Compress responses"),
        max_length=3,
        choices=Gzip.choices,
        default=Gzip.INHERIT,
        blank=True,
        help_text=_(
            "Default: nginx and gallop follow their main file, Apache compresses text, and "
            "OpenLiteSpeed compresses its configured types."
        ),
    )
    gzip_types = models.JSONField(default=list, blank=True, validators=[shapes.validate_gzip_types])
    brotli = models.CharField(
        _("Compress with Brotli"),
        max_length=3,
        choices=Gzip.choices,
        default=Gzip.INHERIT,
        blank=True,
        help_text=_("Same media types as gzip, for clients that support Brotli."),
    )
    client_max_body_mb = models.PositiveIntegerField(
        _("Maximum upload size, MB"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(102400)],
        help_text=_("Leave empty for the web server's default. `0` removes the limit."),
    )
    client_max_header_kb = models.PositiveIntegerField(
        _("Maximum header size, KB"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(1024)],
        help_text=_("Applies to the request line and to each header. The default server of a port sets the limit."),
    )
    certificate = models.ForeignKey(
        Certificate,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="blocks",
        verbose_name=_("Certificate"),
    )
    redirect_to_https = models.BooleanField(_("Redirect HTTP to HTTPS"), default=False)
    hsts_max_age_s = models.PositiveIntegerField(
        _("HSTS, seconds"),
        null=True,
        blank=True,
        help_text=_(
            "How long browsers use only HTTPS, for example `31536000` for one year. Leave empty to send no header."
        ),
    )
    client_verify = models.CharField(
        _("Certificate of the client"),
        max_length=8,
        choices=ClientVerify.choices,
        default=ClientVerify.OFF,
        db_default="",
        blank=True,
        help_text=_(
            "Required: requests without a valid certificate get status 400. Optional: applications decide by "
            "`$ssl_client_verify`, sent in a request header of a location."
        ),
    )
    client_ca = models.TextField(
        _("Authorities"),
        blank=True,
        default="",
        db_default="",
        help_text=_("Certificates in PEM format that sign the clients' certificates."),
    )
    client_crl = models.TextField(
        _("Revocation lists"),
        blank=True,
        default="",
        db_default="",
        help_text=_("In PEM format, one for each authority. Leave empty to accept revoked certificates."),
    )
    client_verify_depth = models.PositiveSmallIntegerField(
        _("Intermediate certificates"),
        default=1,
        db_default=1,
        validators=[MaxValueValidator(10)],
        help_text=_("Largest number between a client's certificate and its authority, such as `1`."),
    )

    class Meta:
        ordering = ["position", "pk"]

    def __str__(self) -> str:
        return f"{self.site.name}: server block {self.position + 1}"

    def clean(self) -> None:
        rules.check_block(self)


class Listen(CheckedModel):
    block = models.ForeignKey(ServerBlock, on_delete=models.CASCADE, related_name="listens")
    address = models.CharField(  # IPv4 or IPv6 without brackets; empty: all IPv4; "::" all IPv6
        max_length=45, blank=True, validators=[validators.validate_listen_address]
    )
    port = models.PositiveIntegerField(default=80, validators=PORT)
    tls = models.BooleanField(default=False)
    http2 = models.BooleanField(default=False)
    http3 = models.BooleanField(default=False)
    default_server = models.BooleanField(default=False)

    class Meta:
        ordering = ["pk"]
        constraints = [models.UniqueConstraint(fields=["block", "address", "port"], name="websites_listen_once")]

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address or "*"
        return f"{host}:{self.port}"

    def clean(self) -> None:
        self.address = claims.address_canonical(self.address)  # 0.0.0.0 is all IPv4 addresses
        rules.check_listen(self)


class ServerName(CheckedModel):
    """A server name: exact (`a.example`), `*.example`, `.example`, `www.*`, or a regular expression that begins with
    `~`.
    """

    block = models.ForeignKey(ServerBlock, on_delete=models.CASCADE, related_name="names")
    name = models.CharField(max_length=253, validators=[validators.validate_server_name])
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "pk"]
        constraints = [models.UniqueConstraint(fields=["block", "name"], name="websites_server_name_once")]
        indexes = [models.Index(fields=["name"], name="websites_server_name")]  # for lookups of a name

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        self.name = validators.server_name_normalized(self.name)
