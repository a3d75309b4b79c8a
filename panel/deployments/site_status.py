"""Choices for the status of a site on its host. Its observed health is stored separately (health_changes.py)."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class SiteStatus(models.TextChoices):
    DRAFT = "draft", _("Draft")  # never deployed
    LIVE = "live", _("Live")
    DISABLED = "disabled", _("Disabled")
    DRIFTED = "drifted", _("Drift")  # a managed file was edited on the host


DEPLOYED = (SiteStatus.LIVE, SiteStatus.DRIFTED)  # the web server loads the site
