"""Model for the domain names of a live site that the panel looks up in DNS each hour."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from panel.websites.models import Site


class NameWatch(models.Model):
    """Domain names of a live site that the panel looks up in DNS.

    `here`: names that have pointed to the site's host. `gone`: names of `here` that no longer point to the host, each
    with an explanation. Names that never pointed to the host are in neither: a load balancer or a proxy may be in front
    of it.
    """

    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="name_watch")
    looked_at = models.DateTimeField(db_index=True)
    here = models.JSONField(default=list)
    gone = models.JSONField(default=dict)
    gone_since = models.DateTimeField(null=True, db_index=True)

    class Meta:
        verbose_name = _("watch of domain names")
        verbose_name_plural = _("watches of domain names")

    def __str__(self) -> str:
        return f"{self.site}: {len(self.here)} names"
