"""Model for managed files that were edited on their hosts."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.core.fields import EncryptedTextField
from panel.hosts.models import WebServer
from panel.websites.models import Site


class DriftResolution(models.TextChoices):
    OPEN = "", _("Open")
    ADOPTED = "adopted", _("Adopted")
    OVERWRITTEN = "overwritten", _("Overwritten")
    GONE = "gone", _("Restored on the host")


class Drift(models.Model):
    """A managed file whose content differs from the deployed one."""

    site = models.ForeignKey(  # null: a file of the web server itself
        Site, null=True, on_delete=models.CASCADE, related_name="drifts"
    )
    web_server = models.ForeignKey(WebServer, on_delete=models.CASCADE, related_name="drifts")
    path = models.TextField()
    expected_sha256 = models.CharField(max_length=64)
    found_sha256 = models.CharField(max_length=64, blank=True)  # empty: the file is missing
    found = EncryptedTextField(blank=True, default="")
    diff = models.TextField(blank=True)
    detected_at = models.DateTimeField(auto_now_add=True)
    resolution = models.CharField(
        max_length=12, choices=DriftResolution.choices, default=DriftResolution.OPEN, blank=True
    )
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-detected_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["web_server", "path"], condition=models.Q(resolution=""), name="deployments_one_open_drift"
            )
        ]

    def __str__(self) -> str:
        return self.path
