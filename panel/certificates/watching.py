"""Check the certificates that live sites present: hourly, and each minute for sites with problems or changed health.
Once a day, check whether CAA records allow the renewal. Differences are stored and become alerts.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cryptography import x509
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from panel.certificates import acme_client, handshakes
from panel.certificates.acme_client import AcmeProblem
from panel.certificates.challenge_files import host_address, through
from panel.certificates.dns import caa
from panel.certificates.judging import problem_of
from panel.certificates.listeners import Listener, listeners_of, site_names
from panel.certificates.models import UNDER_WAY, AcmeAccount, AutomaticCertificate, CertificateWatch, Order
from panel.certificates.ordering import endpoint_of
from panel.core.jobs import JobStatus
from panel.deployments.models import DEPLOYED, Deployment, Revision, SiteState
from panel.deployments.revisions.rendered import contents, spec_of
from panel.deployments.selectors import states_on_running_servers
from panel.remote.target import Target
from panel.rendering.layout import tls_files
from panel.websites.models import Certificate

logger = logging.getLogger(__name__)

MOST_LISTENERS = 100  # of one site; each is requested once for each name
AT_ONCE = 16
SWEEP_S = 1800.0  # remaining sites come first in the next sweep
PART = 100  # sites between two checks of the time limit
AGAIN_AFTER_S = 2.0  # a single difference may be due to a reload
ALLOWED_EVERY = dt.timedelta(hours=20)


@dataclass(frozen=True, eq=False)
class Question:
    """One check to make: a listener of a live site, one name, and the deployed certificate chain.

    `deployed` is empty if Paddock does not know the chain, for example because only the host has the file.
    """

    state: SiteState
    listener: Listener
    deployed: tuple[x509.Certificate, ...]
    through: Target | None  # target of a host behind a bastion


def look(pause: Callable[[float], None] = time.sleep) -> int:
    """Check the TLS listeners of all live sites, the longest unchecked first; return the number of checked sites."""
    until, count = time.monotonic() + SWEEP_S, 0
    keys = list(_due().values_list("pk", flat=True))
    for start in range(0, len(keys), PART):
        if time.monotonic() > until:
            break
        count += _part(keys[start : start + PART], pause)
    _look_for_permission(until)
    return count


def look_again(pause: Callable[[float], None] = time.sleep) -> int:
    """Check the TLS listeners of sites with problems, and of sites whose health changed after the last check; at most
    PART sites. Return the number of checked sites.
    """
    watch = "site__certificate_watch"
    changed = Q(**{f"{watch}__looked_at__lt": F("health_since")})
    rows = _due().filter(changed | Q(**{f"{watch}__problems_since__isnull": False}))
    return _part(list(rows.values_list("pk", flat=True)[:PART]), pause)


def _due() -> QuerySet[SiteState]:
    """Select the live sites whose listeners can be checked, the longest unchecked first."""
    rows = states_on_running_servers()
    rows = rows.exclude(site__automatic__orders__status__in=UNDER_WAY)  # an order checks its own listeners
    return rows.order_by(F("site__certificate_watch__looked_at").asc(nulls_first=True), "pk")


def _part(keys: Sequence[int], pause: Callable[[float], None]) -> int:
    states = SiteState.objects.filter(pk__in=keys).select_related("site", "revision__web_server__host")
    questions = {state: list(_questions(state)) for state in states}
    asked = {state: own for state, own in questions.items() if own}
    found = _asked([question for own in asked.values() for question in own])
    again = [question for question, problem in found.items() if problem]
    if again:
        pause(AGAIN_AFTER_S)
        found |= _asked(again)
    changing = _changing(asked)
    for state, own in asked.items():
        if state.site_id not in changing:
            _record(state, own, found)
    CertificateWatch.objects.filter(site__state__in=[state.pk for state in questions if state not in asked]).delete()
    return len(asked)


def _questions(state: SiteState) -> Iterator[Question]:
    revision = state.revision
    assert revision is not None
    spec, host = spec_of(revision), revision.web_server.host
    via = through(host)
    paths = dict.fromkeys(tls.certificate_path for tls in tls_files(spec))
    for path in paths:
        deployed = _deployed(revision, path)
        for listener in listeners_of(spec, path, host_address(host), wildcards=True)[:MOST_LISTENERS]:
            if listener.address and not (via and listener.is_quic):
                yield Question(state, listener, deployed, via)


def _deployed(revision: Revision, path: str) -> tuple[x509.Certificate, ...]:
    """Return the certificate chain that a live site presents from the file `path`; () if the chain is unknown.

    If Paddock did not deploy the file, the chain is that of the last reading of the host's file.
    """
    digest = next((item["sha256"] for item in revision.files if item["path"] == path), "")
    text = contents([digest]).get(digest, "")
    if not text:
        rows = Certificate.objects.filter(host=revision.web_server.host_id, certificate_path=path)
        text = rows.values_list("certificate_pem", flat=True).first() or ""
    try:
        return tuple(x509.load_pem_x509_certificates(text.encode())) if text else ()
    except ValueError:
        return ()


def _asked(questions: Sequence[Question]) -> dict[Question, str]:
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="certificates") as threads:
        return dict(zip(questions, threads.map(_problem, questions), strict=True))


def _problem(question: Question) -> str:
    """Return the problem of a listener; "" if the certificate is as deployed.

    Return "" also for a listener that is not reachable, because the health checks of sites report unreachable
    listeners.
    """
    try:
        chain = handshakes.presented(question.listener, question.through)
    except handshakes.HandshakeFailed as error:
        return str(error) if error.is_tls else ""
    return problem_of(chain, question.deployed, question.listener.name, timezone.now())


def _changing(states: Mapping[SiteState, object]) -> set[int]:
    """Return the ids of sites that are being deployed or have a running order, or whose live revision has changed."""
    sites = [state.site_id for state in states]
    running = Deployment.objects.filter(status=JobStatus.RUNNING, items__site__in=sites)
    ordered = Order.objects.filter(status__in=UNDER_WAY, automatic__site__in=sites)
    now = dict(SiteState.objects.filter(site__in=sites).values_list("site", "revision"))
    return {
        *running.values_list("items__site", flat=True),
        *ordered.values_list("automatic__site", flat=True),
        *(state.site_id for state in states if now.get(state.site_id) != state.revision_id),
    }


def _record(state: SiteState, questions: Sequence[Question], found: Mapping[Question, str]) -> None:
    problems = [
        {"listener": item.listener.label, "name": item.listener.shown_name, "problem": found[item]}
        for item in questions
        if found[item]
    ]
    now = timezone.now()
    watch, _made = CertificateWatch.objects.get_or_create(site=state.site, defaults={"looked_at": now})
    watch.looked_at, watch.problems = now, problems
    watch.problems_since = (watch.problems_since or now) if problems else None
    watch.save(update_fields=["looked_at", "problems", "problems_since"])


def _look_for_permission(until: float) -> None:
    """Record the names of automatic certificates for which CAA records forbid the authority of the next renewal."""
    due = CertificateWatch.objects.exclude(permission_at__gt=timezone.now() - ALLOWED_EVERY)
    rows = AutomaticCertificate.objects.filter(site__certificate_watch__in=due, site__state__status__in=DEPLOYED)
    by_account: dict[AcmeAccount, list[AutomaticCertificate]] = {}
    for row in rows.select_related("account", "site__state__revision").filter(account__status="valid"):
        by_account.setdefault(row.account, []).append(row)
    for account, automatic in by_account.items():
        if time.monotonic() > until:  # the others come first in the next sweep
            return
        try:
            with acme_client.session(endpoint_of(account)) as authority:
                identities = authority.caa_identities()
        except AcmeProblem as problem:
            logger.info("CAA records for %s were not compared: %s", account, problem.message)
            continue
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="caa") as threads:
            names = [_names(row) for row in automatic]
            found = list(threads.map(lambda own, known=identities: caa.forbidden(own, known), names))
        for row, sentences in zip(automatic, found, strict=True):
            own = CertificateWatch.objects.filter(site=row.site)
            own.update(forbidden=sentences, permission_at=timezone.now())


def _names(row: AutomaticCertificate) -> list[str]:
    revision = row.site.state.revision
    return site_names(spec_of(revision), wildcards=row.dns_id is not None) if revision is not None else []
