"""Execution of an order of a certificate: step by step, each stored before the next starts.

A killed worker leaves the order at its last stored step, and the next worker continues there (core/claims.py). The URL
of the order at the authority is stored, so that it is placed once.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from cryptography import x509
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import F
from django.utils import timezone

from panel.accounts.models import User
from panel.certificates import acme_client, keys, limiting, proving, scheduling, sharing, switching
from panel.certificates.acme_client import RATE_LIMITED, AcmeProblem, Authority, Binding, Endpoint
from panel.certificates.choices import STEPS, AccountStatus, ChallengeKind, KeyType, OrderStep
from panel.certificates.dns import caa, records
from panel.certificates.models import AcmeAccount, Order, OrderRecord
from panel.core.claims import Attempt, Claim
from panel.core.errors import ApplicationError, Conflict, words_of
from panel.core.jobs import JobStatus
from panel.deployments.models import DeploymentStatus
from panel.deployments.planning.selectors import live_revision
from panel.remote.errors import RemoteError
from panel.websites.services import certificate_issue

logger = logging.getLogger(__name__)

CHALLENGE_TIMEOUT_S = 90.0
ISSUE_TIMEOUT_S = 90.0
GIVE_UP_AFTER = dt.timedelta(hours=24)
PAUSE = dt.timedelta(seconds=30)
LONGEST_PAUSE = dt.timedelta(hours=1)
# Errors about the authority or the moment, not about the order (RFC 8555 section 6.7).
PASSING = {RATE_LIMITED, "serverInternal", "badNonce", "orderNotReady"}


class Later(Exception):
    """Raised if a step cannot be done now; `at` is the time of the next attempt."""

    def __init__(self, words: str, at: dt.datetime | None = None) -> None:
        super().__init__(words)
        self.at = at


class Lost(Exception):
    """Raised if another worker owns the order now."""


def order_execute(uuid: UUID) -> Attempt:
    """Claim a queued order, and execute its steps as far as possible now."""
    if Order.objects.filter(uuid=uuid, retry_at__gt=timezone.now()).exists():
        return Attempt.BUSY
    claim = Claim(Order)
    if not claim.take([uuid]):
        return Attempt.NOTHING
    related = ("site__team", "site__web_server__host", "account", "dns", "certificate")
    rows = Order.objects.select_related(*(f"automatic__{name}" for name in related), "requested_by", "previous")
    order = rows.get(uuid=uuid)
    with claim.heartbeat():
        try:
            Course(order, claim).run()
        except Lost:
            logger.warning("order %s was taken from this worker", uuid)
    return Attempt.DONE


class Course:
    """Execution of one order of a certificate while this worker owns it."""

    def __init__(self, order: Order, claim: Claim) -> None:
        self.order = order
        self.claim = claim
        self.automatic = order.automatic
        self.site = order.automatic.site
        self.account = order.automatic.account

    @property
    def actor(self) -> User:
        if self.order.requested_by is None:
            words = "The user who turned on automatic HTTPS no longer has an account. Turn automatic HTTPS off and on."
            raise ApplicationError(words)
        return self.order.requested_by

    @property
    def is_renewal(self) -> bool:
        return self.automatic.seen_at is not None

    def run(self) -> None:
        if self.order.started_at is None:
            self.save(started_at=timezone.now())
        try:
            while self.order.step != OrderStep.DONE:
                step = OrderStep(self.order.step)
                STEP[step](self)
                self.save(step=STEPS[STEPS.index(step) + 1], retry_at=None, progress="", deployment=None)
            self._succeed()
        except Later as later:
            self._postpone(str(later), later.at)
        except AcmeProblem as problem:
            self._refused(problem)
        except (RemoteError, Conflict) as error:
            self._postpone(words_of(error), None)
        except (ApplicationError, ValidationError, PermissionDenied) as error:
            self._fail(words_of(error))
        except Lost:
            raise
        except Exception as error:
            logger.exception("order %s", self.order.uuid)
            self._fail(f"The panel failed because of an internal error: {type(error).__name__}. See the panel's log.")

    # --- the row ---

    def save(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.order, name, value)
        if not self.claim.rows.filter(pk=self.order.pk).update(**values, row_version=F("row_version") + 1):
            raise Lost

    def note(self, text: str, *, is_problem: bool = False) -> None:
        last = self.order.records.last()
        if last is None or (last.text, last.step) != (text, self.order.step):
            OrderRecord.objects.create(order=self.order, step=self.order.step, text=text, is_problem=is_problem)

    def _postpone(self, words: str, at: dt.datetime | None) -> None:
        now = timezone.now()
        if now - (self.order.started_at or now) > GIVE_UP_AFTER:
            self._fail(words)
            return
        waited = now - (self.order.started_at or now)
        when = at or now + min(max(PAUSE, waited / 4), LONGEST_PAUSE)
        self.note(words, is_problem=True)
        self.save(retry_at=when, progress=words[:200])
        self.claim.release([self.order.pk])

    def _refused(self, problem: AcmeProblem) -> None:
        if problem.code == RATE_LIMITED and problem.retry_at:
            AcmeAccount.objects.filter(pk=self.account.pk).update(paused_until=problem.retry_at)
        if problem.failed_name:
            limiting.challenge_failed(self.account, problem.failed_name)
        if problem.is_unreachable or problem.code in PASSING:
            self._postpone(problem.message, problem.retry_at)
        else:
            self._fail(problem.message)

    def _fail(self, words: str) -> None:
        self._clear()
        if self.is_renewal and self.order.step in (OrderStep.DEPLOY, OrderStep.CHECK):
            switching.row_restore(self.order)
        self.note(words, is_problem=True)
        ended = {"status": JobStatus.FAILED, "error": words, "finished_at": timezone.now(), "progress": ""}
        self.save(**ended, key_pem="", previous_pem="", previous_key_pem="")
        scheduling.order_failed(self.automatic, words)

    def _succeed(self) -> None:
        self.note("Every listener that Paddock checked presents the certificate and its chain.")
        done = {"status": JobStatus.SUCCEEDED, "error": "", "finished_at": timezone.now(), "progress": ""}
        # The key is stored with the certificate now.
        self.save(**done, key_pem="", previous_pem="", previous_key_pem="")
        scheduling.order_succeeded(self.automatic)

    def _clear(self) -> None:
        """Remove challenge files and records; files on hosts that do not respond are removed later (tokens_clear)."""
        if self.order.tokens:
            try:
                switching.tokens_remove(self.order)
            except (RemoteError, ApplicationError):
                return
            self.save(tokens=[])
        records.remove(records.of_order(self.order))

    # --- the steps ---

    def prepare(self) -> None:
        """Let the site serve challenges from a folder on its host, which needs a deployment the first time only."""
        self._await_limit()
        live = live_revision(self.site)
        kind = proving.kind_wanted(self.automatic, live)
        if live is None or not sharing.serves_challenges(live, kind):
            if self.is_renewal:
                words = f"The live revision of {self.site} does not serve challenges. Deploy the site again."
                raise ApplicationError(words)
            self._carry_out(lambda: switching.draft_deploy(self.actor, self.site))
            serves = "" if self.automatic.dns else "; the web server serves challenges"
            self.note(f"Paddock deployed the site{serves}.")
        if self.automatic.tls_challenges and kind == ChallengeKind.HTTP:
            self.note("The site's web server cannot prove domain names over TLS, so Paddock uses HTTP (port 80).")
        if not self.automatic.dns and not self.is_renewal:
            self._prepare_twins(kind)

    def _await_limit(self) -> None:
        """Raise Later if the order has to wait for a rate limit of the certificate authority."""
        wait = limiting.wait_of(self.account, self.order)
        if wait is not None:
            self.save(started_at=None)  # this wait is not part of the time after which an order is given up
            raise Later(*wait)

    def _prepare_twins(self, kind: ChallengeKind) -> None:
        """Let the site's twins on other hosts serve challenges too, unless their drafts have other changes."""
        # The site may not have been live when the switch was turned on.
        sharing.challenges_serve(self.site, True, self.automatic.tls_port)
        for twin, live in sharing.twins_of(self.site):
            if sharing.serves_challenges(live, kind) or not twin.answers_challenges:
                continue
            if sharing.has_other_changes(twin, live):
                words = f"{twin} does not serve the challenges because its draft has other changes. Deploy {twin}."
                self.note(words, is_problem=True)
                continue
            self._carry_out(partial(switching.draft_deploy, self.actor, twin))
            self.note(f"The site {twin} serves challenges on {live.web_server.host}.")

    def register(self) -> None:
        self.account.refresh_from_db()  # another order of the account may have registered it
        if self.account.status == AccountStatus.VALID:
            return
        if not self.account.key_pem:
            AcmeAccount.objects.filter(pk=self.account.pk, key_pem="").update(key_pem=keys.key_make(KeyType.P256))
            self.account.refresh_from_db()
        binding = Binding(self.account.eab_key_id, self.account.eab_key) if self.account.eab_key_id else None
        # Registering a key again gives the same account (RFC 8555 section 7.3), but only without its URL.
        with acme_client.session(replace(endpoint_of(self.account), url="")) as authority:
            url = authority.register(self.account.email, binding)
        AcmeAccount.objects.filter(pk=self.account.pk).update(url=url, status=AccountStatus.VALID)
        self.account.url, self.account.status = url, AccountStatus.VALID
        self.note(f"Paddock registered the account at {self.account.get_issuer_display()}.")

    def place(self) -> None:
        if not self.order.names:
            live = live_revision(self.site)
            self.save(names=switching.names_of(self.automatic, live))
        if not self.order.key_pem:
            self.save(key_pem=switching.key_for(self.automatic))
        if self.order.url:
            return
        self._await_limit()
        with acme_client.session(endpoint_of(self.account)) as authority:
            forbidden = caa.forbidden(self.order.names, authority.caa_identities())
            if forbidden:
                raise ApplicationError(" ".join(forbidden))
            placed = authority.order(self.order.names, self.automatic.profile, self.order.replaces)
        self.save(url=placed.url, replaces="" if placed.refusal else self.order.replaces)
        if placed.refusal:
            self.note(f"The certificate authority did not accept the order as a renewal: {placed.refusal}")
        limiting.placed(self.account, self.order)
        self.note(f"Paddock ordered a certificate for {', '.join(self.order.names)}.")

    def prove(self) -> None:
        kind = proving.kind_wanted(self.automatic, live_revision(self.site))
        with acme_client.session(endpoint_of(self.account)) as authority:
            waiting = authority.challenges(self.order.url, kind)
            if waiting:
                (self._write_records if self.automatic.dns else self._write_files)(waiting)
                self._answer(authority, waiting)
        self._clear()
        self.note("The certificate authority accepted every challenge.")

    def _write_records(self, waiting: list[acme_client.Challenge]) -> None:
        """Write the TXT records of all names, and wait until every authoritative server has them."""
        assert self.automatic.dns is not None
        values: dict[str, list[str]] = {}
        for item in waiting:
            values.setdefault(item.name, []).append(item.content)
        try:
            unseen = records.unseen(records.put(self.order, self.automatic.dns, values))
        except ApplicationError as error:
            if error.retry:
                raise Later(error.message) from error
            raise
        if unseen:
            raise Later(f"Not every authoritative DNS server has the record of the challenge: {'; '.join(unseen[:5])}")

    def _write_files(self, waiting: list[acme_client.Challenge]) -> None:
        live = live_revision(self.site)
        if live is None:
            raise ApplicationError(f"The site {self.site} is not deployed. Deploy the site first.")
        self.save(tokens=sorted({*self.order.tokens, *(item.file for item in waiting)}))
        for words in proving.files_put(self.automatic, live, waiting):
            self.note(words, is_problem=True)

    def _answer(self, authority: Authority, waiting: list[acme_client.Challenge]) -> None:
        for item in waiting:
            authority.answer(item)
        if not acme_client.wait_until(
            lambda: None if authority.challenges(self.order.url, waiting[0].kind) else True,
            timeout_s=CHALLENGE_TIMEOUT_S,
        ):
            raise Later("The certificate authority has not checked the challenges yet.")

    def receive(self) -> None:
        if self.order.certificate_pem:
            return
        request = keys.request_make(self.order.names, self.order.key_pem)
        with acme_client.session(endpoint_of(self.account)) as authority:
            chain = acme_client.wait_until(lambda: self._issued(authority, request), timeout_s=ISSUE_TIMEOUT_S)
        if chain is None:
            raise Later("The certificate authority is still issuing the certificate.")
        keys.chain_check(chain, self.order.key_pem, now=timezone.now())
        self.save(certificate_pem=chain)
        limiting.issued(self.account, self.order)
        self.note("Paddock received the certificate.")

    def _issued(self, authority: Authority, request: x509.CertificateSigningRequest) -> str | None:
        body = authority.status(self.order.url)
        match body.status.name:
            case "ready":
                authority.finalize(self.order.url if not body.finalize else body.finalize, request)
            case "valid" if body.certificate:
                return authority.download(body.certificate)
            case "invalid":
                words = str(body.error or "The certificate authority ended the order without a certificate.")
                raise AcmeProblem(words, code="invalid")
        return None

    def deploy(self) -> None:
        """Deploy the site's first certificate with its TLS listeners. For a renewal, wait until the renewed certificate
        is deployed: all renewals of a host are deployed together, with one reload (scheduling.renewals_deploy)."""
        self.keep()
        if self.is_renewal:
            if not switching.is_deployed(self.order):
                raise Later(switching.waiting_words(self.order), timezone.now())
            return
        self._carry_out(lambda: switching.first_deploy(self.actor, self.order))
        self.note("Paddock deployed the certificate.")

    def keep(self) -> None:
        """Store the issued certificate for the site; store the previous certificate and revision in the order."""
        order, certificate = self.order, self.automatic.certificate
        if certificate is not None and certificate.certificate_pem == order.certificate_pem:
            return
        if order.previous is None:
            self.save(previous=live_revision(self.site))
        if certificate is not None and not order.previous_pem:
            self.save(previous_pem=certificate.certificate_pem, previous_key_pem=certificate.private_key_pem)
        kept = certificate_issue(
            actor=None if self.is_renewal else order.requested_by,
            team=self.site.team,
            name=switching.certificate_name(self.site),
            certificate=certificate,
            chain=order.certificate_pem,
            key=order.key_pem,
        )
        if certificate is None:
            type(self.automatic).objects.filter(pk=self.automatic.pk).update(certificate=kept)
            self.automatic.certificate = kept

    def check(self) -> None:
        """Check that each listener presents the new leaf and chain for each name; else restore the previous state."""
        seen = acme_client.wait_until(self._seen, timeout_s=20.0) or self.order.seen
        bad = switching.wrong(seen)
        if not bad:
            return
        words = "; ".join(f"{item['listener']} for {item['name']}: {item['problem']}" for item in bad[:5])
        switching.take_back(self.order)
        raise ApplicationError(
            f"Paddock deployed the certificate, but not every listener presents the certificate: {words}. Paddock "
            "restored the previous configuration."
        )

    def _seen(self) -> list[dict[str, str]] | None:
        found = switching.presented(self.order)
        self.save(seen=found)
        return None if switching.wrong(found) else found

    def _carry_out(self, begin: Callable[[], Any]) -> None:
        """Start a deployment, unless it was started before, and wait until it has ended."""
        if self.order.deployment is None:
            self.save(deployment=begin())
        deployment = self.order.deployment
        problem = switching.waited(deployment)
        self.save(deployment=None)
        if problem and deployment is not None and deployment.status == DeploymentStatus.FAILED:
            raise Later(problem)  # the host did not respond
        if problem:
            raise ApplicationError(problem)


STEP: dict[OrderStep, Callable[[Course], None]] = {
    OrderStep.PREPARE: Course.prepare,
    OrderStep.ACCOUNT: Course.register,
    OrderStep.ORDER: Course.place,
    OrderStep.CHALLENGE: Course.prove,
    OrderStep.CERTIFICATE: Course.receive,
    OrderStep.DEPLOY: Course.deploy,
    OrderStep.CHECK: Course.check,
}


def endpoint_of(account: AcmeAccount) -> Endpoint:
    return Endpoint(account.directory, account.key_pem, account.ca_pem, account.url)
