"""Models of placements: one site with copies on every host that has given tags."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext as _

from panel.core.models import BaseModel, CheckedModel
from panel.core.tags import TagsField
from panel.placements.values import check_values
from panel.websites.models import Site


class Placement(BaseModel):
    """A site with copies on every host that has all of `tags`.

    `values` are the differences of single copies, by host name and a JSON pointer into the site's definition: {"web-2":
    {"/blocks/0/listens/0/address": "192.0.2.2"}}.
    """

    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="placement")
    tags = TagsField()
    values = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["site__name"]

    def __str__(self) -> str:
        return _("Placement of %s") % self.site.name

    def clean(self) -> None:
        if not self.tags:
            raise ValidationError({"tags": _("Enter at least one tag of hosts.")})
        if self.site.pk and PlacedSite.objects.filter(site=self.site).exists():
            raise ValidationError({"tags": _("%s is a copy of another site. Choose the original site.") % self.site})
        check_values(self.values)


class PlacedSite(CheckedModel):
    """A copy of a placement's site on one web server.

    `site_version` and `placement_version` are the versions of the original site and of the placement at the last update
    of the copy.
    """

    placement = models.ForeignKey(Placement, on_delete=models.CASCADE, related_name="copies")
    site = models.OneToOneField(Site, on_delete=models.CASCADE, related_name="placed")
    site_version = models.PositiveIntegerField()
    placement_version = models.PositiveIntegerField()

    class Meta:
        ordering = ["site__name"]

    def __str__(self) -> str:
        return self.site.name
