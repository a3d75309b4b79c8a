"""Selector for sites in maintenance."""

from __future__ import annotations

from django.db.models import QuerySet

from panel.accounts.models import User
from panel.accounts.permissions import visible
from panel.websites.models import Maintenance


def maintenance_visible(user: User) -> QuerySet[Maintenance]:
    """Return the maintenance rows of sites that the user may see."""
    return visible(Maintenance.objects.select_related("site", "started_by"), user, team_path="site__team")
