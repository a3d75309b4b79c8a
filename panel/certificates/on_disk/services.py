"""Services that read and store the certificates on a host's disk, every hour and when the host is checked."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone

from panel.certificates.models import CertificateReading, HostCertificate
from panel.certificates.on_disk.reading import Answer, Found, answer_of
from panel.hosts.models import Host
from panel.hosts.targets import engine_control
from panel.remote.errors import ConnectionLost, RemoteError
from panel.remote.pool import Session

EVERY = dt.timedelta(hours=1)
TIMEOUT_S = 30.0  # the agent stops by itself after 20 seconds, unless a disk does not respond
MOST_WEB_SERVERS = 20  # the same limit as in the agent
_FIELDS = [field.name for field in dataclasses.fields(Found)]

logger = logging.getLogger(__name__)


def certificates_observed(host: Host, agent: Session) -> None:
    """Read the host's certificates if the last attempt was at least EVERY ago; called whenever a host is observed.
    Raises ConnectionLost.
    """
    if not CertificateReading.objects.filter(host=host, tried_at__gt=timezone.now() - EVERY).exists():
        certificates_read(host, agent)


def certificates_read(host: Host, agent: Session) -> None:
    """Read the certificates on the host's disk and store them; after an error the stored ones stay.
    Raises ConnectionLost.
    """
    controls = [engine_control(web_server) for web_server in host.web_servers.order_by("pk")[:MOST_WEB_SERVERS]]
    engines = [
        {"engine": control.engine, "main_config": control.main_config, "prefix": control.prefix} for control in controls
    ]
    now = timezone.now()
    try:
        answer = answer_of(agent.call("certificates", {"engines": engines}, timeout=TIMEOUT_S))
    except ConnectionLost:
        raise
    except RemoteError as error:
        logger.warning("the certificates on %s were not read: %s", host, error.message)
        CertificateReading.objects.update_or_create(host=host, defaults={"tried_at": now, "problem": error.message})
        return
    certificates_record(host, answer, now)


@transaction.atomic
def certificates_record(host: Host, answer: Answer, now: dt.datetime) -> None:
    values = {
        "at": now,
        "tried_at": now,
        "problem": "",
        "skipped": answer.skipped,
        "is_complete": answer.is_complete,
    }
    CertificateReading.objects.update_or_create(host=host, defaults=values)
    rows = HostCertificate.objects.filter(host=host)
    if _content(answer.certificates) == _content(rows):
        return
    rows.delete()
    # Two workers may record the same host at once.
    HostCertificate.objects.bulk_create(
        [HostCertificate(host=host, **dataclasses.asdict(found)) for found in answer.certificates],
        ignore_conflicts=True,
    )


def _content(rows: Iterable[Found | HostCertificate]) -> dict[str, list[object]]:
    """Return {path: values of _FIELDS}, to compare the certificates of a reading with the stored ones."""
    return {row.path: [getattr(row, name) for name in _FIELDS] for row in rows}
