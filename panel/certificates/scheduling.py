"""Schedule of orders: each order sets the time of the next one, and the authority's renewal window can move this time.

A worker claims a due order by a conditional update of the database row, so that two workers never order the same
certificate. The first sweep after a night without a worker starts everything that is due.
"""

from __future__ import annotations

import datetime as dt
import logging
import random
from collections import defaultdict
from uuid import UUID

from cryptography import x509
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from panel.certificates import acme_client, limiting, renewal, sharing, switching
from panel.certificates.acme_client import AcmeProblem, Endpoint
from panel.certificates.choices import AccountStatus, OrderStep
from panel.certificates.dns import records
from panel.certificates.models import UNDER_WAY, AutomaticCertificate, Order
from panel.core import claims
from panel.core.errors import ApplicationError, Conflict, words_of
from panel.core.jobs import JobStatus
from panel.deployments.certificates.selectors import last_deployments, was_rolled_back, was_rolled_back_together
from panel.deployments.certificates.services import certificates_deploy
from panel.deployments.models import DEPLOYED
from panel.hosts.models import Host
from panel.remote.errors import RemoteError

logger = logging.getLogger(__name__)

AT_ONCE = 50  # in one sweep: certificates whose window is requested, and orders that are started
LONGEST_WAIT = dt.timedelta(minutes=10)  # how long a renewed certificate waits for others on its host
BUSY_PAUSE = dt.timedelta(seconds=20)  # after a conflict with another deployment of a site
PAUSE = dt.timedelta(minutes=5)  # after another problem, such as files that were edited on the host
_CHANCE = random.SystemRandom()


def order_succeeded(automatic: AutomaticCertificate) -> None:
    """Record the success of an order, and plan the renewal."""
    rows = AutomaticCertificate.objects.filter(pk=automatic.pk)
    rows.update(seen_at=timezone.now(), failures=0, problem="")
    automatic.refresh_from_db()
    renewal_plan(automatic)


def order_failed(automatic: AutomaticCertificate, words: str) -> None:
    """Record the failure of an order with its reason, and plan the next attempt."""
    now = timezone.now()
    automatic.refresh_from_db()
    failures = automatic.failures + 1
    at = renewal.next_try(failures, now, automatic.account.paused_until, _CHANCE)
    AutomaticCertificate.objects.filter(pk=automatic.pk).update(
        failures=failures, problem=words, next_at=at, reason="The last order of a certificate failed."
    )


def renewal_plan(automatic: AutomaticCertificate) -> None:
    """Ask the authority for its renewal window (RFC 9773), and set the time of the renewal."""
    certificate, now = automatic.certificate, timezone.now()
    if certificate is None:
        return
    window, again = None, None
    leaf = x509.load_pem_x509_certificates(certificate.certificate_pem.encode())[0]
    account = automatic.account
    if account.status == AccountStatus.VALID:
        try:
            with acme_client.session(Endpoint(account.directory, account.key_pem, account.ca_pem)) as authority:
                window, again = authority.window(renewal.certificate_id(leaf))
        except AcmeProblem as problem:
            logger.warning("no renewal information for %s: %s", automatic, problem.message)
    found = renewal.next_renewal(certificate.not_before, certificate.not_after, window, _CHANCE)
    keeps = (
        window is not None
        and automatic.next_at is not None
        and window.start <= automatic.next_at <= max(window.end, window.start)
    )
    lifetime = certificate.not_after - certificate.not_before
    AutomaticCertificate.objects.filter(pk=automatic.pk).update(
        next_at=automatic.next_at if keeps else found.at,
        reason=found.reason,
        ari_at=again or now + min(renewal.ASK_AGAIN, lifetime / 10),
    )


def look() -> None:
    """Do one sweep: ask for renewal windows, start due orders, deploy renewed certificates, and delete leftovers.

    Leftovers are challenge files, TXT records, and counts of rate limits. Several workers may call this at the same
    time.
    """
    now = timezone.now()
    # A site that is disabled or removed from its host presents nothing; its renewal waits until it is deployed again.
    wanted = Q(seen_at=None) | Q(site__state__status__in=DEPLOYED)
    idle = AutomaticCertificate.objects.filter(wanted).exclude(orders__status__in=UNDER_WAY)
    for row in idle.filter(ari_at__lte=now, failures=0).select_related("account", "certificate")[:AT_ONCE]:
        mine = AutomaticCertificate.objects.filter(pk=row.pk, ari_at=row.ari_at)
        if mine.update(ari_at=now + renewal.ASK_AGAIN):
            renewal_plan(row)
    for pk in idle.filter(next_at__lte=now).order_by("next_at").values_list("pk", flat=True)[:AT_ONCE]:
        order_begin(pk, now)
    renewals_deploy()
    sharing.certificates_share()
    tokens_clear()
    records.clear()
    limiting.forget()


def order_begin(pk: int, now: dt.datetime) -> Order | None:
    """Create the order that is due; return None if another worker did so."""
    try:
        with transaction.atomic():
            if not AutomaticCertificate.objects.filter(pk=pk, next_at__lte=now).update(next_at=None):
                return None
            automatic = AutomaticCertificate.objects.select_related("certificate").get(pk=pk)
            last = automatic.orders.first()
            return Order.objects.create(
                automatic=automatic,
                replaces=replaces_of(automatic),
                requested_by=last.requested_by if last and automatic.seen_at is None else None,
            )
    except IntegrityError:  # one order at a time
        return None


def replaces_of(automatic: AutomaticCertificate) -> str:
    """Return the ID (RFC 9773 section 4.1) of the certificate that the next order replaces; "" for none."""
    if automatic.certificate is None or automatic.seen_at is None:
        return ""
    pem = automatic.certificate.certificate_pem
    return renewal.certificate_id(x509.load_pem_x509_certificates(pem.encode())[0])


def orders_waiting() -> list[UUID]:
    """Requeue orders of dead workers; return the UUIDs of the queued orders that are due."""
    waiting = claims.orphans_queue(Order, "created_at", "pk")
    late = set(Order.objects.filter(uuid__in=waiting, retry_at__gt=timezone.now()).values_list("uuid", flat=True))
    return [uuid for uuid in waiting if uuid not in late]


def renewals_deploy() -> None:
    """Deploy the renewed certificates that wait, with one deployment, and so one reload, for each host.

    If that deployment is rolled back, each site is deployed alone: one bad site must not stop the others. A site whose
    last deployment was rolled back is deployed alone until such a deployment succeeds.
    """
    under_way = Order.objects.filter(status__in=UNDER_WAY, automatic__seen_at__isnull=False)
    rows = under_way.select_related("automatic__site__web_server__host", "automatic__certificate", "deployment")
    hosts: dict[int, list[Order]] = defaultdict(list)
    for order in rows.order_by("pk"):
        if order.automatic.site.web_server is not None:
            hosts[order.automatic.site.web_server.host_id].append(order)
    for orders in hosts.values():
        alone = _alone(orders)
        for order in alone:
            _deploy_alone(order)
        _deploy_together([order for order in orders if order not in alone])


def _is_ready(order: Order) -> bool:
    certificate = order.automatic.certificate
    is_kept = certificate is not None and certificate.certificate_pem == order.certificate_pem != ""
    is_waiting = order.deployment is None or was_rolled_back_together(order.deployment)
    return order.step == OrderStep.DEPLOY and is_kept and is_waiting


def _alone(orders: list[Order]) -> list[Order]:
    """Return the orders whose certificate is ready for deployment, and whose site's last deployment of certificates was
    rolled back.
    """
    ready = [order for order in orders if _is_ready(order)]
    last = last_deployments([order.automatic.site for order in ready]) if ready else {}
    return [order for order in ready if was_rolled_back(last.get(order.automatic.site_id))]


def _deploy_alone(order: Order) -> None:
    now = timezone.now()
    web_server = order.automatic.site.web_server
    assert web_server is not None
    idle = Order.objects.filter(pk=order.pk, status=JobStatus.QUEUED, deployment=order.deployment)
    # Claimed as in _deploy_together; the deployment that was rolled back does not tell two workers apart.
    if idle.filter(Q(retry_at=None) | Q(retry_at__lte=now)).update(retry_at=now + dt.timedelta(seconds=20)):
        _deploy(web_server.host, [order])


def _deploy_together(orders: list[Order]) -> None:
    now = timezone.now()
    ready = [order for order in orders if _is_ready(order)]
    early = [
        order
        for order in orders
        if order.step not in (OrderStep.CHECK, OrderStep.DONE)
        and order.deployment is None
        and not _is_ready(order)
        and (order.retry_at is None or order.retry_at < now + LONGEST_WAIT)
    ]
    if not ready or (early and now - min(order.updated_at for order in ready) < LONGEST_WAIT):
        return
    web_server = ready[0].automatic.site.web_server
    assert web_server is not None
    # Claimed by a conditional update: `retry_at` keeps the orders from others for as long as this takes.
    pks = [order.pk for order in ready]
    mine = Order.objects.filter(pk__in=pks, status=JobStatus.QUEUED, deployment=None)
    if mine.update(retry_at=now + dt.timedelta(seconds=20)) != len(pks):
        return
    _deploy(web_server.host, ready)


def _deploy(host: Host, orders: list[Order]) -> None:
    pks = [order.pk for order in orders]
    renewed = [(order.automatic.site, order.automatic.certificate) for order in orders if order.automatic.certificate]
    try:
        deployment = certificates_deploy(host, renewed)
    except ApplicationError as error:
        if error.code == "drift" and len(orders) > 1:  # edited files of one site must not stop the others
            for order in orders:
                _deploy(host, [order])
            return
        pause = BUSY_PAUSE if isinstance(error, Conflict) else PAUSE
        Order.objects.filter(pk__in=pks).update(progress=words_of(error)[:200], retry_at=timezone.now() + pause)
        return
    Order.objects.filter(pk__in=pks, status=JobStatus.QUEUED).update(deployment=deployment, retry_at=None)


def tokens_clear() -> None:
    """Remove challenge files from hosts that did not respond when the order ended."""
    ended = Order.objects.exclude(Q(tokens=[]) | Q(status__in=UNDER_WAY))
    for order in ended.select_related("automatic__site__web_server__host")[:AT_ONCE]:
        try:
            switching.tokens_remove(order)
        except (RemoteError, ApplicationError):
            continue
        Order.objects.filter(pk=order.pk).update(tokens=[])
