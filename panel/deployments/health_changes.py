"""Choices for the observed health of sites, and the model of its history."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.websites.models import Site


class Health(models.TextChoices):
    """Observed health of a site."""

    UNKNOWN = "", _("Not observed")
    ANSWERING = "answering", _("Responding")
    FAILING = "failing", _("Failing")


class HealthChange(models.Model):
    """One change of a site's observed health; only the newest changes are kept (watching/services.py)."""

    class Observer(models.TextChoices):
        HOST = "host", _("Host")
        PANEL = "panel", _("Panel")

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="health_changes")
    at = models.DateTimeField()
    observer = models.CharField(max_length=8, choices=Observer.choices)
    health = models.CharField(max_length=12, choices=Health.choices, blank=True)
    words = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["site", "-id"], name="health_changes_of_site")]
        verbose_name = _("change of health")
        verbose_name_plural = _("changes of health")

    def __str__(self) -> str:
        return f"{self.site}: {self.get_health_display()} at {self.at}"
