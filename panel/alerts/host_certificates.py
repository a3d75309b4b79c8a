"""Alerts about expiring certificates that web servers of hosts use and that Paddock does not renew."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.accounts.models import User
from panel.alerts.certificates import EXPIRY_NOTICE, expiry_label
from panel.alerts.kinds import Alert
from panel.alerts.presence import found_in
from panel.certificates.models import HostCertificate
from panel.certificates.on_disk.selectors import Expiring, expiring

SHOWN = 2  # files named for one certificate


@found_in(lambda hour: HostCertificate.objects.filter(not_after__lt=hour.ends + EXPIRY_NOTICE))
def host_certificate_alerts(user: User, most: int) -> list[Alert]:
    """Return one alert for each expiring certificate in files of hosts, even if several files have it.
    Only administrators get these alerts.
    """
    return [
        Alert(
            "expiring" if item.step else "expired",
            expiry_label(item.step) if item.step else _("Expired"),
            "certificate",
            (item.rows[0].names or [item.rows[0].subject or item.rows[0].path])[0],
            _detail(item),
            # The fragment makes the keys of two certificates of one host differ.
            f"{reverse('certificates:on_host', args=[item.rows[0].host.name])}#{item.rows[0].fingerprint[:16]}",
            item.rows[0].not_after,
            step=str(item.step or ""),
        )
        for item in expiring(user)[:most]
    ]


def _detail(item: Expiring) -> str:
    files = [_("%(path)s on %(host)s") % {"path": row.path, "host": row.host.name} for row in item.rows[:SHOWN]]
    more = len(item.rows) - len(files)
    if more:
        files.append(ngettext("%d more file", "%d more files", more) % more)
    return _("Paddock does not renew this certificate: %s") % ", ".join(files)
