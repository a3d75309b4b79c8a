"""Selectors of ACME accounts, DNS accounts, and automatic certificates that a user may see."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from django.db.models import F, Prefetch, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import visible
from panel.certificates.choices import STEPS, OrderStep
from panel.certificates.models import AcmeAccount, AutomaticCertificate, DnsAccount, Order
from panel.core.jobs import JobStatus
from panel.hosts.models import Host
from panel.websites.models import Certificate, Site
from panel.websites.selectors import CERTIFICATE_IS_USED

CALENDAR_DAYS = 120


def accounts_visible(user: User) -> QuerySet[AcmeAccount]:
    return visible(AcmeAccount.objects.select_related("team"), user)


def dns_accounts_visible(user: User) -> QuerySet[DnsAccount]:
    return visible(DnsAccount.objects.select_related("team"), user)


def certificates_on_hosts() -> dict[Host, list[Certificate]]:
    """Return {host: certificates that Paddock reads from files on the host}."""
    found: dict[Host, list[Certificate]] = {}
    for row in Certificate.objects.filter(host__isnull=False).select_related(
        "host__authority", "host__bastion__authority"
    ):
        assert row.host is not None
        found.setdefault(row.host, []).append(row)
    return found


def automatic_elsewhere(user: User, site: Site) -> QuerySet[AutomaticCertificate]:
    """Select other sites' automatic certificates that server blocks and stream servers of this site use."""
    used = Q(certificate__blocks__site=site) | Q(certificate__stream_servers__site=site)
    return automatic_visible(user).filter(used).exclude(site=site).distinct()


def automatic_visible(user: User) -> QuerySet[AutomaticCertificate]:
    orders = Order.objects.select_related("requested_by").prefetch_related("records")
    rows = AutomaticCertificate.objects.select_related("site__team", "account", "dns", "certificate")
    return visible(rows, user, team_path="site__team").prefetch_related(Prefetch("orders", orders))


def orders_visible(user: User) -> QuerySet[Order]:
    rows = Order.objects.select_related("automatic__site", "requested_by").prefetch_related("records")
    return visible(rows, user, team_path="automatic__site__team")


def certificates_due(user: User) -> QuerySet[Certificate]:
    """Select the certificates with a renewal or expiry within CALENDAR_DAYS, the first to be due first.

    `due_at` is the time at which Paddock renews the certificate, the same as `renewed_at`. For certificates in use that
    Paddock does not renew, `renewed_at` is None and `due_at` is the expiry.
    """
    limit = timezone.now() + dt.timedelta(days=CALENDAR_DAYS)
    renewals = Q(automatic__next_at__lt=limit)
    ends = Q(CERTIFICATE_IS_USED, automatic=None, not_after__lt=limit)
    rows = visible(Certificate.objects.filter(renewals | ends), user)
    renewed_at = F("automatic__next_at")
    rows = rows.annotate(renewed_at=renewed_at, due_at=Coalesce(renewed_at, "not_after"))
    return rows.only("name", "names", "host", "not_after").order_by("due_at", "name")


@dataclass(frozen=True)
class StepLine:
    """One step of an order for display, with its status and log texts."""

    step: OrderStep
    label: str
    status: str
    texts: tuple[str, ...]


def step_lines(order: Order) -> list[StepLine]:
    """Return every step of the order with its status and log texts."""
    records: dict[str, list[str]] = {}
    for record in order.records.all():
        records.setdefault(record.step, []).append(record.text)
    at = STEPS.index(OrderStep(order.step))
    found = []
    for number, step in enumerate(STEPS):
        status = "succeeded" if number < at else _status(order) if number == at else "waiting"
        found.append(StepLine(step, str(step.label), status, tuple(records.get(step, ()))))
    return found


def _status(order: Order) -> str:
    return str(order.status) if order.step != OrderStep.DONE else str(JobStatus.SUCCEEDED)
