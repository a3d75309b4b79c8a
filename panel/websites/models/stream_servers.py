"""Stream servers of a site: TCP and UDP ports whose connections go on to an upstream."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel
from panel.rendering import claims
from panel.websites import shapes, stream_rules, validators
from panel.websites.models.ports import PORT
from panel.websites.models.sites import Site
from panel.websites.models.upstreams import Upstream

MAX_CONNECT_S, MAX_SESSION_S = 600, 604_800


class Protocol(models.TextChoices):
    TCP = "tcp", _("TCP")
    UDP = "udp", _("UDP")


class StreamServer(BaseModel):
    """A port of the web server whose TCP connections or UDP datagrams go on to an upstream of the site."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="stream_servers")
    name = models.SlugField(max_length=63, validators=[validators.validate_slug])
    protocol = models.CharField(max_length=3, choices=Protocol.choices, default=Protocol.TCP)
    address = models.CharField(  # as in Listen
        max_length=45, blank=True, default="", validators=[validators.validate_listen_address]
    )
    port = models.PositiveIntegerField(validators=PORT)
    upstream = models.ForeignKey(Upstream, on_delete=models.PROTECT, related_name="stream_servers")
    connect_timeout_s = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MAX_CONNECT_S)]
    )
    session_timeout_s = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MAX_SESSION_S)]
    )
    proxy_protocol = models.BooleanField(default=False)
    allowed = models.JSONField(  # ["192.0.2.0/24"]; empty: every client
        default=list, blank=True, validators=[shapes.validate_sources]
    )

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["site", "name"], name="websites_stream_server_name")]
        indexes = [models.Index(fields=["port"], name="websites_stream_port")]  # for lookups of other sites' ports

    def __str__(self) -> str:
        return self.name

    @property
    def socket(self) -> str:
        """Address and port as pages show them: `*:5432`, `[::1]:53`."""
        return claims.socket_text(self.address, self.port)

    def clean(self) -> None:
        self.address = claims.address_canonical(self.address)  # 0.0.0.0 is all IPv4 addresses
        stream_rules.check_stream_server(self)
