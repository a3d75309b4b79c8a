"""Upstreams of a site, with their servers."""

from __future__ import annotations

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.models import BaseModel, CheckedModel
from panel.core.tags import TagsField
from panel.websites import rules, validators
from panel.websites.models.ports import PORT
from panel.websites.models.sites import Site


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

    @property
    def use_count(self) -> int:
        """Number of locations and stream servers that pass requests on to the upstream."""
        users: Any = self  # both related names are of models that this module cannot import
        servers = {row.pk for row in users.stream_servers.all()} | {row.server_id for row in users.stream_routes.all()}
        return len(users.locations.all()) + len(servers)

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
