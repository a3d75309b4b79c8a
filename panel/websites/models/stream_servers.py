"""Stream servers of a site: TCP and UDP ports whose connections go on to an upstream."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel, CheckedModel
from panel.rendering import claims
from panel.websites import shapes, stream_rules, validators
from panel.websites.models.certificates import Certificate
from panel.websites.models.ports import PORT
from panel.websites.models.sites import Site
from panel.websites.models.upstreams import Upstream

MAX_CONNECT_S, MAX_SESSION_S = 600, 604_800


class Protocol(models.TextChoices):
    TCP = "tcp", _("TCP")
    UDP = "udp", _("UDP")


class StreamServer(BaseModel):
    """A port of the web server whose TCP connections or UDP datagrams go on to an upstream of the site.

    With a certificate, the web server decrypts the connections of clients. With routes (StreamRoute), it passes TLS on
    unchanged and chooses the upstream by the server name that the client requests.
    """

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
    certificate = models.ForeignKey(
        Certificate, null=True, blank=True, on_delete=models.PROTECT, related_name="stream_servers"
    )
    upstream_tls = models.BooleanField(default=False, db_default=False)
    # Name that the upstream gets in the handshake, and that its certificate must have.
    upstream_tls_name = models.CharField(
        max_length=253, blank=True, default="", db_default="", validators=[stream_rules.validate_tls_name]
    )
    # CA certificates on the host for the upstream's certificate; "": every certificate is accepted.
    upstream_tls_ca = models.CharField(
        max_length=400, blank=True, default="", db_default="", validators=[validators.validate_path]
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
        self.upstream_tls_name = self.upstream_tls_name and stream_rules.tls_name_normalized(self.upstream_tls_name)
        stream_rules.check_stream_server(self)


class StreamRoute(CheckedModel):
    """A TLS server name, exact or `*.example.com`, whose connections a stream server passes on to an upstream."""

    server = models.ForeignKey(StreamServer, on_delete=models.CASCADE, related_name="routes")
    name = models.CharField(max_length=255, validators=[stream_rules.validate_route_name])  # 253, and `*.`
    upstream = models.ForeignKey(Upstream, on_delete=models.PROTECT, related_name="stream_routes")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "pk"]

    def __str__(self) -> str:
        return f"{self.name}: {self.upstream}"

    def clean(self) -> None:
        self.name = stream_rules.route_name_normalized(self.name)
