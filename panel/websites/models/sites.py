"""Sites, and the maintenance of sites, in which visitors see a maintenance page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction

from panel.accounts.models import Team
from panel.core.models import BaseModel
from panel.core.tags import TagsField
from panel.hosts.models import WebServer
from panel.rendering import maintenance
from panel.websites import shapes, validators


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
    # expected response of the health page; empty: any status below 400
    health_status = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(100), MaxValueValidator(599)]
    )
    health_text = models.CharField(
        max_length=200, blank=True, validators=[validators.validate_line], default="", db_default=""
    )
    health_header = models.CharField(  # sent with the request: "X-Check: paddock"
        max_length=300, blank=True, validators=[validators.validate_health_header], default="", db_default=""
    )
    # Whether the watch requests the health page from the panel too, and not only on the site's host.
    watched_from_panel = models.BooleanField(default=True, db_default=True)
    cache_mb = models.PositiveIntegerField(  # maximum size of the cached responses of all locations
        default=100, validators=[MinValueValidator(1), MaxValueValidator(1048576)]
    )
    # Whether its server blocks serve ACME challenges from the host's challenge folder; set by certificates.services.
    answers_challenges = models.BooleanField(default=False, editable=False)
    # Port on which server blocks serve ACME challenges over TLS, too, where the web server supports it; 0: none.
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
        """Delete the site.

        Its server blocks and stream servers are deleted first: upstreams and PHP pools, which also belong to the site,
        cannot be deleted while these refer to them.
        """
        with transaction.atomic():
            self.blocks.all().delete()
            self.stream_servers.all().delete()
            return super().delete(*args, **kwargs)


class Maintenance(BaseModel):
    """Maintenance of a site, active or being started: visitors see a page instead of the site.

    deployments.maintenance writes these rows. The maintenance page belongs to the live version, not to the draft, and
    stays when the draft is deployed.
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
