"""Template tag of the card of certificates on a host's page; the app hosts must not import certificates."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.certificates.models import HostCertificate
from panel.certificates.on_disk.selectors import certificates_of_host, expiry_of, lines, reading_of_host
from panel.core.templatetags import ui
from panel.hosts.models import Engine, Host

register = template.Library()
SHOWN = 6


@register.inclusion_tag("certificates/on_host_card.html")
def host_certificates(host: Host, user: User) -> dict[str, Any]:
    """Render the card with the certificates on the host's disk that expire first."""
    rows = certificates_of_host(user, host)
    return {
        "host": host,
        "lines": lines(rows[:SHOWN]),
        "count": rows.count(),
        "most": SHOWN,
        "reading": reading_of_host(user, host),
        "now": timezone.now(),
    }


@register.simple_tag
def expiry_status(row: HostCertificate, now: dt.datetime) -> SafeString:
    step = expiry_of(row, now)
    if step == 0:
        return ui.status("expired", _("Expired"))
    if step:
        return ui.status("expiring", _("Expires soon"))
    if row.not_before > now:
        return ui.status("queued", _("Not valid yet"))
    return ui.status("valid", _("Valid"))


@register.filter
def engine_name(engine: str) -> str:
    return str(Engine(engine).label)
