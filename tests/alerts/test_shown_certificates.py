"""The database chooses the certificates that alerts name; `expiry_step` tells the step of each."""

from __future__ import annotations

import datetime as dt

from django.utils import timezone

from panel.alerts.certificates import certificate_alerts
from panel.websites.certificates import EXPIRY_STEPS, expiry_step
from panel.websites.models import Certificate, CertificateSource, ServerBlock, Site
from tests.deployments.sample_plans import shop
from tests.support.cast import cast

LIFETIMES = (1, 2.9, 6, 9, 21, 45, 89, 91, 365)
LEFT = (-1, 0.2, 0.9, 1.1, 2.9, 3.1, 6.9, 7.1, 13.9, 14.1, 29.9, 30.1)


def test_alerts_name_every_certificate_that_has_reached_a_step(db: None) -> None:
    people = cast()
    site, now = shop(people), timezone.now()
    expected: dict[str, int] = {}
    for source, most in ((CertificateSource.UPLOADED, EXPIRY_STEPS[0]), (CertificateSource.HOST, EXPIRY_STEPS[1])):
        for lifetime in LIFETIMES:
            for left in LEFT:
                end = now + dt.timedelta(days=left)
                name = f"{source}-{lifetime}-{left}".replace(".", "_")
                row = _used_by(site, name, source, end - dt.timedelta(days=lifetime), end)
                step = expiry_step(row.not_before, end, now, most=most)
                if step is not None:
                    expected[row.name] = step
    shown = {alert.title: int(alert.step or 0) for alert in certificate_alerts(people.admin, 1000)}
    assert shown == expected
    assert len(certificate_alerts(people.admin, 6)) == 6


def _used_by(site: Site, name: str, source: str, begin: dt.datetime, end: dt.datetime) -> Certificate:
    fields = {"issuer": "Example CA", "fingerprint": name, "names": ["shop.example"], "faults": []}
    if source == CertificateSource.HOST:
        fields |= {"host": site.web_server.host, "certificate_path": f"/{name}", "key_path": "/key"}
    row = Certificate.objects.create(
        name=name, team=site.team, source=source, not_before=begin, not_after=end, **fields
    )
    ServerBlock.objects.create(site=site, certificate=row)
    return row
