"""Models of the desired state of sites, independent of a host's files and a server's syntax.

List values are JSON in the format of the dataclasses in panel/rendering/spec.py; validators.py checks them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.utils.translation import gettext_lazy as _

from panel.accounts.models import Team
from panel.core.fields import EncryptedTextField
from panel.core.models import BaseModel, CheckedModel
from panel.core.tags import TagsField
from panel.hosts.models import Engine, Host, WebServer
from panel.rendering import claims, maintenance
from panel.websites import rules, shapes, shared, validators
from panel.websites.certificate_faults import words_of_faults

PORT = [MinValueValidator(1), MaxValueValidator(65535)]


class Site(BaseModel):
    name = models.SlugField(
        max_length=63, unique=True, validators=[validators.validate_slug]
    )  # part of its file names on the host
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="sites")
    web_server = models.ForeignKey(WebServer, null=True, blank=True, on_delete=models.PROTECT, related_name="sites")
    enabled = models.BooleanField(default=True)
    health_path = models.CharField(  # requested before and after every deployment
        max_length=300, default="/", validators=[validators.validate_uri_path]
    )
    # what the health page must answer; empty: any status below 400
    health_status = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(100), MaxValueValidator(599)]
    )
    health_text = models.CharField(
        max_length=200, blank=True, validators=[validators.validate_line], default="", db_default=""
    )
    health_header = models.CharField(  # sent with the request: "X-Check: paddock"
        max_length=300, blank=True, validators=[validators.validate_health_header], default="", db_default=""
    )
    cache_mb = models.PositiveIntegerField(  # of what its locations keep of answers
        default=100, validators=[MinValueValidator(1), MaxValueValidator(1048576)]
    )
    # Whether its server blocks serve ACME challenges from the host's challenge folder; set by certificates.services.
    answers_challenges = models.BooleanField(default=False, editable=False)
    # Port on which they show the challenges over TLS too, where the web server can; 0: on none.
    tls_challenge_port = models.PositiveIntegerField(default=0, editable=False, db_default=0)
    notes = models.TextField(blank=True, validators=[validators.validate_text])
    tags = TagsField()
    # number of changes of the draft; every service that changes a site's files calls websites.versions
    version = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering = ["name"]
        indexes = [models.Index(fields=["-updated_at", "-id"], name="websites_newest")]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        # incremented by the database, so that an outdated object cannot lower the version
        if update_fields is None and not self._state.adding:
            own = (field for field in self._meta.concrete_fields if not field.primary_key)
            update_fields = {field.name for field in own} - {"version"}
        super().save(*args, update_fields=update_fields, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete the server blocks first: their locations protect upstreams and PHP pools, which also belong to the
        site.
        """
        with transaction.atomic():
            self.blocks.all().delete()
            return super().delete(*args, **kwargs)


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
    # Files of a host that another program renews there. Sites name them; Paddock only reads the certificate.
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.CASCADE, related_name="certificates")
    certificate_path = models.CharField(max_length=400, blank=True, default="", db_default="")
    key_path = models.CharField(max_length=400, blank=True, default="", db_default="")
    names = models.JSONField(default=list)  # DNS names and addresses in the certificate
    issuer = models.CharField(max_length=300)
    fingerprint = models.CharField(max_length=64)  # SHA-256 of the leaf's DER, hex
    not_before = models.DateTimeField()
    not_after = models.DateTimeField(db_index=True)
    # why browsers refuse it although it is valid (certificate_faults); null: not looked at yet
    faults = models.JSONField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)  # browsers and clients may refuse it since

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def fault_words(self) -> list[str]:
        return words_of_faults(self.faults or [])


class SharedSetting(BaseModel):
    """A setting under a name, which the sites of its team use by writing `@name`. `slug` names the kind."""

    slug: ClassVar[str]

    name = models.SlugField(max_length=63, unique=True, validators=[validators.validate_slug])
    team = models.ForeignKey(Team, on_delete=models.PROTECT)

    class Meta:
        abstract = True
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class AccessList(SharedSetting):
    """Addresses and networks that access rules name."""

    slug = "access-list"

    sources = models.JSONField(validators=[shapes.validate_access_list])  # ["192.0.2.7", "10.0.0.0/8"]

    class Meta(SharedSetting.Meta):
        verbose_name = _("access list")
        verbose_name_plural = _("access lists")


class HeaderSet(SharedSetting):
    """Response headers that headers of server blocks and locations name."""

    slug = "header-set"

    headers = models.JSONField(validators=[shapes.validate_header_set])  # [{"name", "value", "always": true}]

    class Meta(SharedSetting.Meta):
        verbose_name = _("header set")
        verbose_name_plural = _("header sets")

    def clean(self) -> None:
        rules.check_header_set(self)


class DirectiveSet(SharedSetting):
    """Raw directives that other raw directives name by a line of their own; administrators only."""

    slug = "directive-set"

    engine = models.CharField(max_length=16, choices=Engine.choices)
    text = models.TextField(validators=[shapes.validate_directive_set])

    class Meta(SharedSetting.Meta):
        verbose_name = _("directive set")
        verbose_name_plural = _("directive sets")


class Balancing(models.TextChoices):
    ROUND_ROBIN = "round_robin", _("Round robin")
    LEAST_CONN = "least_conn", _("Least connections")
    IP_HASH = "ip_hash", _("Client address")


class Upstream(BaseModel):
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="upstreams")
    name = models.SlugField(max_length=63, validators=[validators.validate_slug])
    balancing = models.CharField(max_length=12, choices=Balancing.choices, default=Balancing.ROUND_ROBIN)
    # With tags, the servers follow the hosts that have all of them: each host's address with this port.
    host_tags = TagsField(db_default="")
    host_port = models.PositiveIntegerField(null=True, blank=True, validators=PORT)
    keepalive = models.PositiveIntegerField(default=16, validators=[MaxValueValidator(1024)])

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="websites_upstream_name")]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        rules.check_upstream(self)


class UpstreamServer(CheckedModel):
    upstream = models.ForeignKey(Upstream, on_delete=models.CASCADE, related_name="servers")
    address = models.CharField(  # host:port, [v6]:port or unix:/path
        max_length=300, validators=[validators.validate_upstream_address]
    )
    weight = models.PositiveIntegerField(default=1, validators=[MinValueValidator(1), MaxValueValidator(1000)])
    max_fails = models.PositiveIntegerField(default=1, validators=[MaxValueValidator(100)])
    fail_timeout_s = models.PositiveIntegerField(default=10, validators=[MaxValueValidator(3600)])
    backup = models.BooleanField(default=False)
    down = models.BooleanField(default=False)
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "pk"]

    def __str__(self) -> str:
        return self.address


class PhpPool(BaseModel):
    """An existing PHP process pool: php-fpm listening on `address`, asked over FastCGI by every web server."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="php_pools")
    name = models.SlugField(max_length=63, validators=[validators.validate_slug])
    address = models.CharField(  # host:port, [v6]:port or unix:/path
        max_length=300, validators=[validators.validate_upstream_address]
    )
    settings = models.JSONField(  # {"memory_limit": "256M"}, sent as PHP_VALUE
        default=dict, blank=True, validators=[shapes.validate_php_settings]
    )

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="websites_php_pool_name")]

    def __str__(self) -> str:
        return self.name


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
    """A name: exact `a.example`, `*.example`, `.example`, `www.*` or a regular expression that begins with `~`."""

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


class Match(models.TextChoices):
    EXACT = "=", _("= exact path")
    PREFIX_FINAL = "^~", _("^~ path prefix, before regular expressions")
    REGEX = "~", _("~ regular expression")
    REGEX_NOCASE = "~*", _("~* regular expression, case-insensitive")
    PREFIX = "", _("path prefix")


class Handler(models.TextChoices):
    STATIC = "static", _("Files")
    PHP = "php", _("PHP / FastCGI")
    PROXY = "proxy", _("Proxy")
    RETURN = "return", _("Redirect or fixed response")
    DENY = "deny", _("Deny")


class Location(BaseModel):
    block = models.ForeignKey(ServerBlock, on_delete=models.CASCADE, related_name="locations")
    position = models.PositiveIntegerField(default=0)  # order of evaluation of regular expressions
    match = models.CharField(_("Path"), max_length=2, choices=Match.choices, default=Match.PREFIX, blank=True)
    pattern = models.CharField(_("Pattern"), max_length=500, validators=[validators.validate_line])
    handler = models.CharField(_("Handled by"), max_length=8, choices=Handler.choices, default=Handler.STATIC)
    rewrites = models.JSONField(default=list, blank=True, validators=[shapes.validate_rewrites])
    # static
    root = models.CharField(
        _("Root"),
        max_length=500,
        blank=True,
        validators=[validators.validate_path],
        help_text=_("The request path is appended. Leave empty to use the server block's root."),
    )
    alias = models.CharField(
        _("Alias"),
        max_length=500,
        blank=True,
        validators=[validators.validate_path],
        help_text=_("Replaces the matched prefix."),
    )
    index = models.JSONField(default=list, blank=True, validators=[shapes.validate_index])
    try_files = models.JSONField(default=list, blank=True, validators=[shapes.validate_try_files])
    autoindex = models.BooleanField(null=True, blank=True)  # null: same as the server block
    # php
    php_pool = models.ForeignKey(
        PhpPool, null=True, blank=True, on_delete=models.PROTECT, related_name="locations", verbose_name=_("PHP pool")
    )
    split_path_info = models.BooleanField(_("Split PATH_INFO (script.php/rest)"), default=False)
    # proxy
    upstream = models.ForeignKey(
        Upstream, null=True, blank=True, on_delete=models.PROTECT, related_name="locations", verbose_name=_("Upstream")
    )
    upstream_tls = models.BooleanField(_("Connect to the upstream with TLS"), default=False)
    proxy_uri = models.CharField(  # replaces the matched prefix; empty: original path
        _("Replace the prefix with"),
        max_length=500,
        blank=True,
        validators=[validators.validate_uri_path],
        help_text=_("Leave empty to pass the path unchanged, or enter a prefix such as `/app/`."),
    )
    websocket = models.BooleanField(_("Allow WebSocket upgrades"), default=False)
    request_headers = models.JSONField(  # [{"name", "value"}] sent to the upstream
        default=list, blank=True, validators=[shapes.validate_request_headers]
    )
    connect_timeout_s = models.PositiveIntegerField(
        _("Connect timeout, seconds"), null=True, blank=True, validators=[MaxValueValidator(600)]
    )
    read_timeout_s = models.PositiveIntegerField(
        _("Response timeout, seconds"), null=True, blank=True, validators=[MaxValueValidator(86400)]
    )
    # php and proxy
    cache_times = models.JSONField(  # [{"codes": [200, 301], "seconds": 600}]; empty: no caching
        default=list, blank=True, validators=[shapes.validate_cache_times]
    )
    cache_skip_cookies = models.JSONField(  # ["session", "wordpress_logged_in_*"]
        default=list, blank=True, validators=[shapes.validate_cookies]
    )
    cache_skip_queries = models.BooleanField(_("Bypass cache for URLs with a query string"), default=False)
    cache_stale = models.BooleanField(_("Serve stale on error"), default=True)
    cache_header = models.BooleanField(_("Add an X-Cache response header"), default=False)
    cache_key = models.CharField(
        _("Cache key"),
        max_length=300,
        blank=True,
        validators=[validators.validate_line],
        help_text=_("Leave empty for scheme, host, path, and query, or enter variables such as `$host$uri`."),
    )
    # return
    return_code = models.PositiveIntegerField(
        _("Status"), null=True, blank=True, validators=[MinValueValidator(200), MaxValueValidator(599)]
    )
    return_value = models.CharField(  # URL for 301/302/303/307/308, else the body
        _("Redirect target or response body"),
        max_length=1000,
        blank=True,
        validators=[validators.validate_line],
        help_text=_("For 301, 302, 303, 307, and 308, for example `https://www.example.com$request_uri` or `/new`."),
    )
    # any handler
    headers = models.JSONField(default=list, blank=True, validators=[shapes.validate_headers])
    expires = models.CharField(  # "7d", "-1", "max", "off"
        _("Expires header"),
        max_length=32,
        blank=True,
        validators=[validators.validate_expires],
        help_text=_("For example `30d`, `12h`, `-1` (no caching), `max`, or `off`."),
    )
    access_rules = models.JSONField(  # [{"action": "allow"|"deny", "source": "10.0.0.0/8"|"@list"|"all"}]
        default=list, blank=True, validators=[shapes.validate_access_rules]
    )
    basic_auth_realm = models.CharField(
        _("Realm"),
        max_length=120,
        blank=True,
        validators=[validators.validate_realm],
        help_text=_(
            "Browsers show this text in the password dialog, for example `Staging`. Leave empty to ask for no password."
        ),
    )
    basic_auth_users = models.JSONField(  # {username: bcrypt hash}
        default=dict, blank=True, validators=[shapes.validate_basic_auth_users]
    )
    rate_limit_rps = models.PositiveIntegerField(
        _("Requests/s per client"), null=True, blank=True, validators=[MinValueValidator(1)]
    )
    rate_limit_burst = models.PositiveIntegerField(_("Burst"), default=0)
    connection_limit = models.PositiveIntegerField(
        _("Connections per client"), null=True, blank=True, validators=[MinValueValidator(1)]
    )
    client_max_body_mb = models.PositiveIntegerField(
        _("Maximum upload size, MB"), null=True, blank=True, validators=[MaxValueValidator(102400)]
    )
    gzip = models.CharField(
        _("Compress responses"), max_length=3, choices=Gzip.choices, default=Gzip.INHERIT, blank=True
    )

    class Meta:
        ordering = ["position", "pk"]
        constraints = [models.UniqueConstraint(fields=["block", "match", "pattern"], name="websites_location_once")]

    def __str__(self) -> str:
        return f"{self.match} {self.pattern}".strip()

    def clean(self) -> None:
        rules.check_location(self)


class RawSnippet(BaseModel):
    """Raw directives, for administrators only; checked against an allow-list and by the server itself."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="snippets")
    engine = models.CharField(max_length=16, choices=Engine.choices)
    block = models.ForeignKey(ServerBlock, null=True, blank=True, on_delete=models.CASCADE, related_name="snippets")
    location = models.ForeignKey(Location, null=True, blank=True, on_delete=models.CASCADE, related_name="snippets")
    text = models.TextField(validators=[validators.validate_text])
    # The text with the lines of directive sets in place of their names: what is rendered, and judged. Set by `save()`.
    expanded = models.TextField(default="", blank=True, editable=False, db_default="")

    class Meta:
        ordering = ["pk"]

    def __str__(self) -> str:
        return f"raw directives for {self.get_engine_display()} of {self.site.name}"

    def clean(self) -> None:
        rules.check_snippet(self)

    def save(self, *args: Any, update_fields: Iterable[str] | None = None, **kwargs: Any) -> None:
        self.expanded = shared.directives_expanded(self.text, self.directive_sets())
        super().save(*args, update_fields=update_fields and {*update_fields, "expanded"}, **kwargs)

    def directive_sets(self) -> dict[str, str]:
        """Texts of the directive sets that this one may name: those of the site's team for the same web server."""
        if not shared.directive_sets_named(self.text):
            return {}
        rows = DirectiveSet.objects.filter(team=self.site.team_id, engine=self.engine)
        return dict(rows.values_list("name", "text"))


class AllowanceKind(models.TextChoices):
    NAME = "name", _("Name")
    ADDRESS = "address", _("Address")
    DEFAULT = "default", _("Default server")
    SERVICE = "service", _("Local service")


class Allowance(BaseModel):
    """An administrator's decision that a team may use a resource of another owner.

    `name`: a server name that overlaps another team's. `address`, `default`: a socket (127.0.0.1:80) that receives
    requests for other teams' sites. `service`: a socket or an address of the host itself for upstreams and PHP pools;
    without a team, all teams may use it.
    """

    kind = models.CharField(max_length=8, choices=AllowanceKind.choices)
    value = models.CharField(max_length=300, validators=[validators.validate_line])
    team = models.ForeignKey(Team, null=True, blank=True, on_delete=models.CASCADE, related_name="allowances")
    host = models.ForeignKey(Host, null=True, blank=True, on_delete=models.CASCADE, related_name="allowances")
    note = models.CharField(max_length=300, blank=True, validators=[validators.validate_line])
    granted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )
    # a service used by several teams before services had to be listed; an administrator must assign it again
    needs_review = models.BooleanField(default=False, editable=False)

    class Meta:
        ordering = ["kind", "value", "pk"]
        indexes = [models.Index(fields=["value"], name="websites_allowance_value")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.value}"

    def clean(self) -> None:
        rules.check_allowance(self)


class Maintenance(BaseModel):
    """A site that is in maintenance, or is being put into it: visitors see a page instead of the site.

    Written by deployments.maintenance. It belongs to the live version, not to the draft: every deployment of the draft
    keeps it.
    """

    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="maintenance")
    text = models.CharField(max_length=maintenance.MAX_TEXT, validators=[validators.validate_line])
    retry_after_s = models.PositiveIntegerField(
        default=600, validators=[MinValueValidator(1), MaxValueValidator(604_800)]
    )
    allowed = models.JSONField(  # addresses and networks whose visitors see the site: ["192.0.2.0/24"]
        default=list, blank=True, validators=[shapes.validate_sources]
    )
    ends_at = models.DateTimeField(null=True, blank=True, db_index=True)  # null: when somebody ends it
    end_tried_at = models.DateTimeField(null=True, blank=True, editable=False)  # last attempt of the panel to end it
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )

    def __str__(self) -> str:
        return f"maintenance of {self.site.name}"
