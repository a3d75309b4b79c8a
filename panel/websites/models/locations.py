"""Locations of a server block."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel
from panel.websites import rules, shapes, validators
from panel.websites.models.php_pools import PhpPool
from panel.websites.models.server_blocks import Gzip, ServerBlock
from panel.websites.models.upstreams import Upstream


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


class UpstreamProtocol(models.TextChoices):
    HTTP = "http", _("HTTP")
    GRPC = "grpc", _("gRPC")
    UWSGI = "uwsgi", _("uWSGI")


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
    upstream_protocol = models.CharField(
        _("Protocol of the upstream"),
        max_length=5,
        choices=UpstreamProtocol.choices,
        default=UpstreamProtocol.HTTP,
        db_default=UpstreamProtocol.HTTP,
        help_text=_("Clients reach gRPC only over HTTP/2: add `http2` to a port of the server block."),
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
