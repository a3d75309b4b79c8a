"""Services of ACME accounts and of automatic HTTPS of sites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cryptography import x509
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.certificates import keys
from panel.certificates.acme_client import AcmeProblem, session
from panel.certificates.choices import REASON_CODES, AccountStatus, Issuer, KeyType, RevocationReason
from panel.certificates.keys import is_address
from panel.certificates.listeners import exact_names
from panel.certificates.models import UNDER_WAY, AcmeAccount, AutomaticCertificate, DnsAccount, Order
from panel.certificates.ordering import endpoint_of
from panel.certificates.scheduling import replaces_of
from panel.certificates.sharing import challenges_serve, supports_tls_challenges
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.core.messages import Task, task_send_on_commit
from panel.hosts.models import Engine, WebServer
from panel.rendering import names as server_names
from panel.websites.models import Site
from panel.websites.services import certificate_revoked
from panel.websites.services.base import remove, store


def account_create(*, actor: User, team: Team, name: str, **values: Any) -> AcmeAccount:
    """Create an ACME account, which its first order registers.

    The team thereby agrees to the authority's terms of service. Only administrators can use a directory that is not
    listed, because the panel's own host connects to it.
    """
    account = AcmeAccount(team=team, name=name)
    needs = Action.ADMINISTER if values.get("issuer") == Issuer.OTHER else Action.CHANGE
    if needs is Action.ADMINISTER:
        require(actor, needs)
    store(actor=actor, team=team, instance=account, action="acme_account.create", values=values)
    return account


@transaction.atomic
def account_delete(*, actor: User, account: AcmeAccount, expected_version: int | None = None) -> None:
    """Delete an account that no site uses. At the authority, the account remains unless it was deactivated first."""
    try:
        remove(
            actor=actor,
            team=account.team,
            instance=account,
            action="acme_account.delete",
            expected_version=expected_version,
        )
    except ProtectedError as error:
        sites = ", ".join(sorted(str(item) for item in error.protected_objects))
        message = f"{account} is used by {sites}. Turn off automatic HTTPS of these sites first."
        raise ApplicationError(message, code="in_use") from error


def account_deactivate(*, actor: User, account: AcmeAccount) -> AcmeAccount:
    """Deactivate the account at the authority (RFC 8555 section 7.3.6). This cannot be undone."""
    require(actor, Action.CHANGE, account.team)
    if account.automatic.exists():
        raise ApplicationError(f"Sites use {account}. Turn off automatic HTTPS of these sites first.", code="in_use")
    if account.status != AccountStatus.VALID:
        raise Conflict(
            f"{account} is not registered at the certificate authority. The first order registers the account."
        )
    try:
        with session(endpoint_of(account)) as authority:
            authority.deactivate()
    except AcmeProblem as problem:
        raise ApplicationError(problem.message) from problem
    with transaction.atomic():
        AcmeAccount.objects.filter(pk=account.pk).update(status=AccountStatus.DEACTIVATED)
        audit_record(actor=actor, action="acme_account.deactivate", target=account)
    account.refresh_from_db()
    return account


def account_key_change(*, actor: User, account: AcmeAccount) -> AcmeAccount:
    """Replace the key of the account by a new one (RFC 8555 section 7.3.5).

    The new key is stored before the authority gets it, so a lost response does not lose the account: the next attempt
    finds out which of the two keys the authority knows.
    """
    require(actor, Action.CHANGE, account.team)
    if account.status != AccountStatus.VALID:
        raise Conflict(
            f"{account} is not registered at the certificate authority. The first order registers the account."
        )
    if Order.objects.filter(automatic__account=account, status__in=UNDER_WAY).exists():
        raise Conflict(f"An order of {account} is running. Try again when the order has ended.")
    rows = AcmeAccount.objects.filter(pk=account.pk)
    rows.filter(next_key_pem="").update(next_key_pem=keys.key_make(KeyType.P256))
    account.refresh_from_db()
    try:
        with session(replace(endpoint_of(account), key_pem=account.next_key_pem, url="")) as authority:
            is_changed = authority.known_url() == account.url
        if not is_changed:
            with session(endpoint_of(account)) as authority:
                authority.change_key(account.next_key_pem)
    except AcmeProblem as problem:
        raise ApplicationError(problem.message, retry=problem.is_unreachable) from problem
    with transaction.atomic():
        rows.update(key_pem=account.next_key_pem, next_key_pem="")
        audit_record(actor=actor, action="acme_account.key_change", target=account)
    account.refresh_from_db()
    return account


def certificate_revoke(*, actor: User, site: Site, reason: str, order_new: bool = True) -> AutomaticCertificate:
    """Revoke the certificate of automatic HTTPS at its authority (RFC 8555 section 7.6), and order a new one.

    Raises Conflict if the site has no certificate, and ApplicationError if the authority refuses.
    """
    require(actor, Action.CHANGE, site.team)
    if order_new:
        require(actor, Action.DEPLOY, site.team)
    automatic = AutomaticCertificate.objects.filter(site=site).select_related("account", "certificate__team").first()
    if automatic is None or automatic.certificate is None:
        raise Conflict(f"{site} has no certificate that Paddock ordered.")
    if automatic.certificate.revoked_at is not None:
        raise Conflict(f"{automatic.certificate} is already revoked.")
    if automatic.orders.filter(status__in=UNDER_WAY).exists():
        raise Conflict(f"Paddock orders a certificate for {site} at the moment. Try again when the order has ended.")
    leaf = x509.load_pem_x509_certificates(automatic.certificate.certificate_pem.encode())[0]
    try:
        with session(endpoint_of(automatic.account)) as authority:
            authority.revoke(leaf, REASON_CODES[RevocationReason(reason)])
    except AcmeProblem as problem:
        if problem.code != "alreadyRevoked":
            raise ApplicationError(problem.message, retry=problem.is_unreachable) from problem
    with transaction.atomic():
        certificate_revoked(actor=actor, certificate=automatic.certificate, reason=reason)
        if order_new:
            _order(actor, automatic)
    return automatic


def _refuse_names(site: Site, dns: DnsAccount | None) -> None:
    """Raise ApplicationError for names that cannot be proven.
    HTTP-01 proves only exact names (RFC 8555 section 8.3), DNS-01 also wildcard names, but no IP addresses.
    """
    names = [name.name for block in site.blocks.all() for name in block.names.all()]
    provable = ("exact", "leading", "dot") if dns else ("exact",)
    others = [name for name in names if server_names.kind(name) not in provable]
    if others:
        is_wildcard = not dns and all(server_names.kind(name) in ("leading", "dot") for name in others)
        advice = "Choose a DNS account, replace these names," if is_wildcard else "Replace these names,"
        kinds = "exact domain names and *.example.com" if dns else "exact domain names"
        message = (
            f"Automatic HTTPS needs {kinds}, and {site} has {', '.join(others[:3])}. {advice} or upload a certificate."
        )
        raise ApplicationError(message, field="names")
    addresses = [name for name in exact_names(tuple(names)) if is_address(name)]
    if dns and addresses:
        message = (
            f"A DNS record cannot prove an IP address, and {site} has {addresses[0]}. Choose no DNS account, "
            "or remove the address."
        )
        raise ApplicationError(message, field="dns")
    if not names:
        raise ApplicationError(f"{site} has no domain name. Add a domain name to a server block first.", field="names")


def _refuse_tls(web_server: WebServer, dns: DnsAccount | None, tls_challenges: bool) -> None:
    if not tls_challenges:
        return
    if dns is not None:
        message = (
            "Paddock proves domain names either over TLS or by DNS records. Choose no DNS account, or turn "
            "off “Prove the names over TLS”."
        )
        raise ApplicationError(message, field="tls_challenges")
    if web_server.engine != Engine.NATIVE:
        message = f"Only gallop proves domain names over TLS, and {web_server} is {web_server.get_engine_display()}."
        raise ApplicationError(f"{message} Turn off “Prove the names over TLS”.", field="tls_challenges")
    if not supports_tls_challenges(web_server):
        message = (
            f"This version of {web_server} does not prove domain names over TLS. Install gallop again on the "
            "host first."
        )
        raise ApplicationError(message, field="tls_challenges")


def _refuse_accounts(site: Site, account: AcmeAccount, dns: DnsAccount | None) -> None:
    if account.team_id != site.team_id:
        raise ApplicationError(
            "This account belongs to another team. Choose an account of the site's team.", field="account"
        )
    if dns is not None and dns.team_id != site.team_id:
        raise ApplicationError(
            "This DNS account belongs to another team. Choose a DNS account of the site's team.", field="dns"
        )
    if account.status == AccountStatus.DEACTIVATED:
        raise ApplicationError(f"{account} is deactivated. Choose another account.", field="account")


def _refuse_enabling(site: Site, account: AcmeAccount, dns: DnsAccount | None, tls_challenges: bool) -> None:
    _refuse_accounts(site, account, dns)
    if site.web_server is None or not site.enabled:
        raise ApplicationError(
            f"{site} has no web server or is disabled. Choose a web server and enable the site first.", field="site"
        )
    _refuse_names(site, dns)
    _refuse_tls(site.web_server, dns, tls_challenges)
    if AutomaticCertificate.objects.filter(site=site).exists():
        raise Conflict(f"Automatic HTTPS of {site} is already on.")


@transaction.atomic
def automatic_enable(
    *,
    actor: User,
    site: Site,
    account: AcmeAccount,
    key_type: str = KeyType.P256,
    profile: str = "",
    https_port: int = 443,
    http3: bool = True,
    hsts_max_age_s: int | None = None,
    dns: DnsAccount | None = None,
    tls_challenges: bool = False,
    reuse_key: bool = False,
) -> Order:
    """Turn on automatic HTTPS: order a certificate, deploy it with HTTPS, and renew it from then on.

    The deployment includes all other changes in the site's draft. Raises PermissionDenied, ValidationError,
    ApplicationError, Conflict.
    """
    require(actor, Action.CHANGE, site.team)
    require(actor, Action.DEPLOY, site.team)
    _refuse_enabling(site, account, dns, tls_challenges)
    values: dict[str, object] = {"key_type": key_type, "profile": profile, "https_port": https_port}
    values |= {"http3": http3, "hsts_max_age_s": hsts_max_age_s, "tls_challenges": tls_challenges}
    values |= {"reuse_key": reuse_key}
    automatic = AutomaticCertificate(site=site, account=account, dns=dns, **values)
    automatic.full_clean()
    automatic.save()
    challenges_serve(site, dns is None, automatic.tls_port)
    audit_record(
        actor=actor,
        action="automatic_https.enable",
        target=site,
        after=values | {"account": account.name, "dns": dns.name if dns else ""},
    )
    return _order(actor, automatic)


@transaction.atomic
def automatic_disable(*, actor: User, site: Site) -> None:
    """Turn off automatic HTTPS. The certificate stays in use until it expires or another certificate is chosen."""
    require(actor, Action.CHANGE, site.team)
    automatic = AutomaticCertificate.objects.filter(site=site).first()
    if automatic is None:
        raise Conflict(f"Automatic HTTPS of {site} is already off.")
    if automatic.orders.filter(status=JobStatus.RUNNING).exists():
        raise Conflict(f"An order for {site} is running. Try again when it has ended.")
    audit_record(actor=actor, action="automatic_https.disable", target=site)
    automatic.delete()
    challenges_serve(site, False)


@transaction.atomic
def certificate_order(*, actor: User, site: Site) -> Order:
    """Order a new certificate now, before the scheduled time. Raises Conflict while an order is running."""
    require(actor, Action.DEPLOY, site.team)
    automatic = AutomaticCertificate.objects.filter(site=site).select_related("certificate").first()
    if automatic is None:
        raise Conflict(f"Automatic HTTPS of {site} is off. Turn automatic HTTPS on first.")
    order = _order(actor, automatic)
    audit_record(actor=actor, action="automatic_https.order", target=site)
    return order


def _order(actor: User, automatic: AutomaticCertificate) -> Order:
    if automatic.orders.filter(status__in=UNDER_WAY).exists():
        raise Conflict(f"Paddock already orders a certificate for {automatic.site}. Wait until the order ends.")
    AutomaticCertificate.objects.filter(pk=automatic.pk).update(next_at=None)
    try:
        with transaction.atomic():
            order = Order.objects.create(automatic=automatic, requested_by=actor, replaces=replaces_of(automatic))
    except IntegrityError as error:
        raise Conflict(
            f"Paddock already orders a certificate for {automatic.site}. Wait until the order ends."
        ) from error
    task_send_on_commit(Task.CERTIFICATE_ORDER, str(order.uuid))
    return order
