"""Alerts about PHP-FPM pools that do not run, or whose files were edited on their hosts."""

from __future__ import annotations

from django.urls import reverse

from panel.accounts.models import User
from panel.alerts.kinds import Alert
from panel.alerts.presence import found_in
from panel.fpm.models import FpmPool
from panel.fpm.selectors import pools_visible, state_of


@found_in(lambda hour: FpmPool.objects.exclude(text=""))
def fpm_pool_alerts(user: User, most: int) -> list[Alert]:
    rows = pools_visible(user).exclude(text="").filter(host__is_paused=False)
    rows = rows.select_related(None).select_related("site")
    found = [(row, state_of(row)) for row in rows.only("name", "text", "seen", "seen_at", "problem", "site__name")]
    return [
        Alert(
            state.status,
            state.label,
            "fpm_pool",
            row.name,
            state.detail,
            reverse("fpm:pool", args=[row.site.name]),
            row.seen_at,
        )
        for row, state in found
        if state.status in ("failed", "drifted")
    ][:most]
